#include "striped/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "aggregation/ranges.h"
#include "aggregation/testing/whole_plan.h"
#include "striped/collective.h"
#include "striped/streams.h"

namespace kedge::bench {

namespace {

using aggregation::ImageRange;
using aggregation::Line;
using aggregation::Roles;
using aggregation::testing::ScanResult;
using Images = std::vector<std::vector<uint64_t>>;  // bytes, by node and rank

constexpr uint64_t kPrefixMessageBytes = 16;

Images ImagesOf(const Study& study) {
  Random random(MixSeed(study.seed, 1));
  Images images(study.nodes);
  for (auto& of_node : images) {
    for (uint32_t i = 0; i < study.ranks_per_node; ++i) {
      const double factor = 1 + study.size_spread * (2 * random.Unit() - 1);
      of_node.push_back(study.size_spread > 0 ? static_cast<uint64_t>(static_cast<double>(study.bytes_per_rank) * factor)
                                              : study.bytes_per_rank);
    }
  }
  return images;
}

std::vector<uint64_t> SumsOf(const Images& images) {
  std::vector<uint64_t> sums;
  for (const auto& of_node : images) sums.push_back(std::accumulate(of_node.begin(), of_node.end(), uint64_t{0}));
  return sums;
}

// A stream for each rank, which writes one object on one target.
class FileRequests final : public RequestSource {
 public:
  FileRequests(const Machine& machine, const Images& images) : machine_(machine) {
    for (uint32_t node = 0; node < images.size(); ++node) {
      for (const uint64_t bytes : images[node]) {
        left_.push_back(bytes);
        nodes_.push_back(node);
      }
    }
  }
  const std::vector<uint32_t>& nodes() const { return nodes_; }
  bool Next(uint32_t stream, Request* request) override {
    request->target = stream % machine_.targets;
    request->own_bytes = std::min(left_[stream], machine_.stripe_bytes);
    left_[stream] -= request->own_bytes;
    return request->own_bytes > 0;
  }

 private:
  const Machine& machine_;
  std::vector<uint64_t> left_;
  std::vector<uint32_t> nodes_;
};

// A stream for each node, which writes its images into the one object, striped over all targets.
class PosixRequests final : public RequestSource {
 public:
  PosixRequests(const Machine& machine, const Images& images, const ScanResult& scan) : machine_(machine) {
    for (uint32_t node = 0; node < images.size(); ++node) {
      ranges_.push_back(aggregation::RangesByPrefix(node, scan.before[node], images[node]));
    }
    at_.resize(images.size());
    done_.resize(images.size());
  }
  bool Next(uint32_t stream, Request* request) override {
    if (at_[stream] == ranges_[stream].size()) return false;
    const aggregation::ObjectRun& run = ranges_[stream][at_[stream]].to;
    const uint64_t offset = run.offset + done_[stream];
    request->own_bytes = std::min(run.bytes - done_[stream], machine_.stripe_bytes - offset % machine_.stripe_bytes);
    request->target = static_cast<uint32_t>(offset / machine_.stripe_bytes % machine_.targets);
    request->lock = request->target;
    done_[stream] += request->own_bytes;
    if (done_[stream] == run.bytes) {
      done_[stream] = 0;
      ++at_[stream];
    }
    return true;
  }

 private:
  const Machine& machine_;
  std::vector<std::vector<ImageRange>> ranges_;
  std::vector<size_t> at_;
  std::vector<uint64_t> done_;
};

// A stream for each object of a leader. The leader's stripes are dealt to its streams in turn.
class LeaderRequests final : public RequestSource {
 public:
  LeaderRequests(const Machine& machine, const Line& line, const Roles& roles, const ScanResult& scan,
                 const std::vector<uint64_t>& sums)
      : machine_(machine), roles_(roles), sources_(roles.leaders.size()) {
    for (uint32_t node = 0; node < sums.size(); ++node) {
      for (const auto& transfer : aggregation::ShareOf(line, roles, node, scan.before[node], sums[node])) {
        sources_[transfer.leader].push_back({transfer.to, transfer.bytes, node});
      }
    }
    for (auto& of_leader : sources_) {
      std::sort(of_leader.begin(), of_leader.end(), [](const Source& a, const Source& b) { return a.to < b.to; });
    }
    of_leader_ = std::max<uint32_t>(1, roles.objects / static_cast<uint32_t>(roles.leaders.size()));
    for (const auto& leader : roles.leaders) nodes_.insert(nodes_.end(), of_leader_, leader.node);
    for (uint32_t i = 0; i < nodes_.size(); ++i) stripes_.push_back(i % of_leader_);
  }
  const std::vector<uint32_t>& nodes() const { return nodes_; }
  uint32_t locks() const { return roles_.objects * machine_.targets; }
  bool Next(uint32_t stream, Request* request) override {
    const uint32_t leader = stream / of_leader_;
    const uint64_t from = stripes_[stream] * roles_.stripe_bytes;
    if (from >= roles_.leaders[leader].capacity) return false;
    stripes_[stream] += of_leader_;
    const uint64_t end = std::min(from + roles_.stripe_bytes, roles_.leaders[leader].capacity);
    const aggregation::ObjectRun run = aggregation::RunsOf(roles_, leader, from, end - from).front();
    const bool is_shared = roles_.objects < roles_.leaders.size();
    const uint64_t stripe = run.offset / roles_.stripe_bytes;
    request->target = static_cast<uint32_t>((is_shared ? run.object + stripe : run.object) % machine_.targets);
    if (is_shared) request->lock = run.object * machine_.targets + request->target;
    auto source = std::upper_bound(sources_[leader].begin(), sources_[leader].end(), from,
                                   [](uint64_t value, const Source& other) { return value < other.to; });
    for (--source; source != sources_[leader].end() && source->to < end; ++source) {
      const uint64_t bytes = std::min(end, source->to + source->bytes) - std::max(from, source->to);
      if (source->node == nodes_[stream]) {
        request->own_bytes += bytes;
      } else {
        request->pulls.push_back({source->node, bytes});
      }
    }
    return true;
  }

 private:
  struct Source {
    uint64_t to = 0;
    uint64_t bytes = 0;
    uint32_t node = 0;
  };
  const Machine& machine_;
  const Roles& roles_;
  std::vector<std::vector<Source>> sources_;  // by leader, ascending
  uint32_t of_leader_ = 1;                    // streams
  std::vector<uint32_t> nodes_;
  std::vector<uint64_t> stripes_;  // of each stream: the next, counted in its leader
};

class Run {
 public:
  explicit Run(const Study& study) : study_(study), machine_(study.machine), images_(ImagesOf(study)), sums_(SumsOf(images_)) {
    result_.bytes = std::accumulate(sums_.begin(), sums_.end(), uint64_t{0});
  }

  StudyResult Do() {
    result_.local_seconds = LocalSeconds();
    switch (study_.strategy) {
      case Strategy::kFile: File(); break;
      case Strategy::kPosix: Posix(); break;
      case Strategy::kMpiIo: MpiIo(); break;
      case Strategy::kGenericIo: GenericIo(); break;
      case Strategy::kLeaders: Leaders(); break;
    }
    return result_;
  }

 private:
  // Copies of the slowest rank, and for a prefix sum the scan, which ranks wait for ([Agg] 2.1).
  double LocalSeconds() const {
    uint64_t largest = 0;
    for (const auto& of_node : images_) largest = std::max(largest, *std::max_element(of_node.begin(), of_node.end()));
    const double of_rank = std::min(machine_.copy_bytes_per_second, machine_.memory_bytes_per_second / study_.ranks_per_node);
    const bool has_prefix_sum = study_.strategy == Strategy::kPosix || study_.strategy == Strategy::kMpiIo;
    return static_cast<double>(largest) / of_rank +
           (has_prefix_sum ? ScanSeconds(2 * (std::bit_width(study_.nodes) - 1), kPrefixMessageBytes) : 0);
  }

  double ScanSeconds(uint32_t steps, uint64_t message_bytes) const {
    return steps * (machine_.hop_seconds + static_cast<double>(message_bytes) / machine_.network_bytes_per_second);
  }

  ScanResult Scanned(const Line& line, uint32_t leaders) const {
    std::vector<aggregation::NodeSize> sizes;
    for (const uint64_t bytes : sums_) sizes.push_back({bytes, 0});
    return aggregation::testing::Scan(line, leaders, sizes);
  }

  void File() {
    FileRequests requests(machine_, images_);
    Streams streams(machine_, requests.nodes(), study_.nodes, 0, study_.seed, requests);
    result_.flush_seconds = streams.Run(0);
    result_.files = requests.nodes().size();
  }

  void Posix() {
    const Line line = LineOf(study_);
    PosixRequests requests(machine_, images_, Scanned(line, 1));
    std::vector<uint32_t> nodes(study_.nodes);
    std::iota(nodes.begin(), nodes.end(), 0U);
    Streams streams(machine_, nodes, study_.nodes, machine_.targets, study_.seed, requests);
    result_.flush_seconds = streams.Run(0);
    result_.files = 1;
    result_.hand_overs = streams.hand_overs();
  }

  // A collective call for each of a node's checkpoints, one after the other ([Agg] 2.2): the calls of all nodes have a hole where
  // the other checkpoints of a node go. Before each, every backend reads the checkpoint, and the last one that is ready counts.
  void MpiIo() {
    Random random(MixSeed(study_.seed, 2));
    double now = machine_.metadata_seconds * study_.nodes;
    for (uint32_t rank = 0; rank < study_.ranks_per_node; ++rank) {
      uint64_t bytes = 0;
      double first = 1, last = 0, read = 0;
      for (const auto& of_node : images_) {
        bytes += of_node[rank];
        read = std::max(read, static_cast<double>(of_node[rank]) / machine_.read_bytes_per_second);
        const double ready = random.Unit();
        first = std::min(first, ready);
        last = std::max(last, ready);
      }
      now += read + (last - first) * machine_.skew_seconds;
      const CollectiveWrite write{study_.nodes, study_.nodes, bytes, study_.nodes > 1 ? study_.ranks_per_node : 1};
      now = RunCollective(machine_, write, MixSeed(study_.seed, 3 + rank), now);
    }
    result_.flush_seconds = now;
    result_.files = 1;
  }

  // All ranks at once, from their memory, while the application waits.
  void GenericIo() {
    const uint32_t ranks = study_.nodes * study_.ranks_per_node;
    uint64_t largest = 0;
    for (const auto& of_node : images_) largest = std::max(largest, *std::max_element(of_node.begin(), of_node.end()));
    const double start = machine_.metadata_seconds * ranks + static_cast<double>(largest) / machine_.checksum_bytes_per_second;
    result_.flush_seconds = RunCollective(machine_, {ranks, study_.nodes, result_.bytes, 1}, MixSeed(study_.seed, 3), start);
    result_.local_seconds = result_.flush_seconds;
    result_.files = 1;
  }

  void Leaders() {
    const Line line = LineOf(study_);
    const auto counts = CountsOf(study_);
    KEDGE_CHECK(counts.ok());
    const ScanResult scan = Scanned(line, counts->leaders);
    const Roles roles = aggregation::Elect(line, scan.root, {*counts, machine_.stripe_bytes});
    result_.scan_seconds = ScanSeconds(scan.steps, scan.message_bytes_max);
    LeaderRequests requests(machine_, line, roles, scan, sums_);
    Streams streams(machine_, requests.nodes(), study_.nodes, requests.locks(), study_.seed, requests);
    result_.flush_seconds = streams.Run(result_.scan_seconds);
    result_.files = roles.objects;
    result_.leaders = static_cast<uint32_t>(roles.leaders.size());
    result_.moved_bytes = roles.moved_bytes();
    result_.hand_overs = streams.hand_overs();
  }

  const Study& study_;
  const Machine& machine_;
  const Images images_;
  const std::vector<uint64_t> sums_;
  StudyResult result_;
};

}  // namespace

const std::vector<std::string>& StrategyNames() {
  static const std::vector<std::string> names{"file", "posix", "mpi-io", "generic-io", "leaders"};
  return names;
}

std::optional<Strategy> StrategyOf(std::string_view name) {
  const auto found = std::find(StrategyNames().begin(), StrategyNames().end(), name);
  if (found == StrategyNames().end()) return std::nullopt;
  return static_cast<Strategy>(found - StrategyNames().begin());
}

aggregation::Line LineOf(const Study& study) {
  std::vector<aggregation::Member> members;
  for (uint32_t i = 0; i < study.nodes; ++i) {
    members.push_back({fmt::format("n{:06}", i), fmt::format("s{:06}", i / std::max(study.nodes_of_switch, 1U))});
  }
  return *aggregation::MakeLine(std::move(members));
}

Result<aggregation::Counts> CountsOf(const Study& study) {
  const Machine& machine = study.machine;
  return aggregation::ChooseCounts(
      study.nodes,
      {machine.targets, machine.target_bytes_per_second(), machine.object_bytes_per_second(), machine.node_bytes_per_second},
      study.asked);
}

StudyResult RunStudy(const Study& study) {
  KEDGE_CHECK(study.nodes > 0 && study.ranks_per_node > 0 && study.bytes_per_rank > 0);
  return Run(study).Do();
}

}  // namespace kedge::bench
