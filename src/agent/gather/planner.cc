#include "agent/gather/planner.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "agent/flush/flush.h"
#include "agent/gather/job_blocks.h"
#include "agent/peers/peers.h"
#include "agent/tables/agent_core.h"
#include "aggregation/shares.h"
#include "base/log.h"
#include "os/machine/machine.h"

namespace kedge {
namespace {

// The answer comes when the slowest node of the job has captured its images.
constexpr Duration kScanTimeout = std::chrono::seconds(30);
constexpr Duration kScanKept = std::chrono::seconds(60);

// The nodes that can write: all agents of the attempt know the same of them.
Result<aggregation::Line> LineOf(const Job& job) {
  std::vector<aggregation::Member> members;
  for (const JobNode& node : job.members.nodes) {
    if (!node.address.empty() && !node.ranks.empty()) members.push_back({node.name, node.failure_domain});
  }
  return aggregation::MakeLine(std::move(members));
}

std::optional<uint32_t> FindIn(const aggregation::Line& line, const std::string& name) {
  const auto found = std::ranges::find(line.nodes, name, &aggregation::Member::name);
  return found == line.nodes.end() ? std::nullopt : std::optional(static_cast<uint32_t>(found - line.nodes.begin()));
}

// What came from another node is a summary of nodes of this line: Elect counts on it.
bool IsOf(const aggregation::Line& line, const aggregation::Summary& summary) {
  if (summary.district_bytes.size() != line.district_count()) return false;
  std::vector<uint64_t> left = summary.district_bytes;
  uint64_t rest = summary.bytes;
  for (const uint64_t bytes : left) {
    if (bytes > rest) return false;
    rest -= bytes;
  }
  if (rest > 0) return false;
  std::optional<uint32_t> before;
  for (const aggregation::Candidate& candidate : summary.candidates) {
    if (candidate.node >= line.size() || (before && candidate.node <= *before)) return false;
    before = candidate.node;
    uint64_t& of_district = left[line.DistrictOf(candidate.node)];
    if (candidate.bytes > of_district) return false;
    of_district -= candidate.bytes;
  }
  return true;
}

// Of all nodes.
bool IsRootOf(const aggregation::Line& line, uint32_t leaders, const aggregation::Summary& summary) {
  return IsOf(line, summary) && summary.candidates.size() >= std::min(leaders, line.size());
}

uint8_t LoadNow() {
  return aggregation::LoadOf(os::PressurePercent("cpu") / 100, os::PressurePercent("memory") / 100, 0);
}

WritePlan PlanOf(const aggregation::Line& line, const aggregation::ElectionOptions& options, bool has_leaders, uint32_t self,
                 uint64_t own_bytes, const aggregation::Summary& root, uint64_t before) {
  WritePlan plan;
  plan.self = self;
  if (!has_leaders) return plan;
  const aggregation::Roles roles = aggregation::Elect(line, root, options);
  for (const aggregation::Transfer& transfer : aggregation::ShareOf(line, roles, self, before, own_bytes)) {
    plan.runs.push_back({line.nodes[roles.leaders[transfer.leader].node].name, transfer.from, transfer.bytes});
  }
  for (const aggregation::Leader& leader : roles.leaders) {
    if (leader.node == self) plan.led_bytes = leader.capacity;
  }
  return plan;
}

}  // namespace

Planner::Planner(AgentCore& core, Flush& flush, Peers& peers, Decided decided)
    : core_(core), flush_(flush), peers_(peers), decided_(std::move(decided)) {
  peers.service().On(PeerKind::kScan, DecodeScanRequest, std::bind_front(&Planner::OnScan, this));
}

// How long an image is in its object is known before it is written only where nothing of it is left out.
bool Planner::SharesObjects(const Job& job) {
  return job.hello.keys.store_layout == StoreLayout::kPosix && Flush::WritesWhole(job);
}

bool Planner::HasLeaders(const Job& job) {
  return job.hello.keys.store_layout == StoreLayout::kLeaders || SharesObjects(job);
}

std::optional<aggregation::Line> Planner::LineFor(const Job& job, const Generation& generation) const {
  const bool plans = HasLeaders(job) || JobBlocks::AreWanted(job);
  if (!plans || !peers_.is_open()) return std::nullopt;
  if (job.members.attempt != generation.attempt) return std::nullopt;
  auto line = LineOf(job);
  if (!line.ok() || line->size() < 2 || !FindIn(*line, core_.settings().node)) return std::nullopt;
  return std::move(*line);
}

Planner::Scan* Planner::Find(const Job& job, const Generation& generation) {
  const auto found = scans_.find(generation);
  if (found != scans_.end()) return &found->second;
  auto line = LineFor(job, generation);
  if (!line) return nullptr;
  Scan scan;
  scan.line = std::move(*line);
  scan.self = *FindIn(scan.line, core_.settings().node);
  scan.place = aggregation::PlaceInTree(scan.self, scan.line.size());
  scan.begun_ns = core_.clock().NowNs();
  const uint32_t nodes = scan.line.size(), asked = job.hello.keys.store_leaders;
  const uint32_t not_asked = SharesObjects(job) ? 1 : nodes;
  const uint32_t leaders = asked == 0 ? not_asked : std::min(asked, nodes);
  scan.options = {{leaders, leaders}, job.hello.keys.store_stripe_bytes};
  scan.has_leaders = HasLeaders(job);
  scan.common_most = job.hello.keys.reduce_common_most;
  scan.block_bytes = JobBlocks::AreWanted(job) ? flush_.BlockBytesOf(job) : 0;
  return &scans_.emplace(generation, std::move(scan)).first->second;
}

std::optional<uint32_t> Planner::PlaceOf(const Job& job, const Generation& generation) {
  const Scan* const scan = Find(job, generation);
  return scan == nullptr ? std::nullopt : std::optional(scan->self);
}

void Planner::Offer(const Job& job, const Generation& generation, uint64_t bytes, reduce::PopularBlocks popular) {
  Scan* const scan = Find(job, generation);
  if (scan == nullptr || scan->offered) return;
  scan->offered = bytes;
  scan->popular = std::move(popular);
  Advance(job, generation, *scan);
}

void Planner::OnScan(const Job& job, const net::Peer& peer, const ScanRequest& request, net::Answer answer) {
  const std::string& node = peer.node;
  Scan* const scan = Find(job, request.generation);
  if (scan == nullptr) return answer(Status(Code::kNotFound, "versions are not planned here"));
  const auto child = FindIn(scan->line, node);
  if (!child || (child != scan->place.left && child != scan->place.right)) {
    return answer(Status(Code::kInvalidArgument, node + " is no child of this node"));
  }
  const bool is_alike = request.leaders == scan->options.counts.leaders && request.stripe_bytes == scan->options.stripe_bytes &&
                        request.block_bytes == scan->block_bytes;
  if (!is_alike || !IsOf(scan->line, request.summary)) {
    return answer(Status(Code::kMismatch, "node " + node + " plans by other settings"));
  }
  Child& heard = scan->children[*child];
  if (heard.answer) heard.answer(Status(Code::kBusy, "asked again"));
  heard = {request.summary, request.popular, std::move(answer)};
  if (scan->answer) return Finish(request.generation, *scan, *scan->answer);
  Advance(job, request.generation, *scan);
}

void Planner::Advance(const Job& job, const Generation& generation, Scan& scan) {
  const size_t children = (scan.place.left ? 1 : 0) + (scan.place.right ? 1 : 0);
  if (!scan.offered || scan.children.size() < children || std::exchange(scan.is_told, true)) return;
  const uint32_t leaders = scan.options.counts.leaders;
  aggregation::Summary all = aggregation::SummaryOf(scan.line, scan.self, {*scan.offered, LoadNow()});
  for (auto& [node, child] : scan.children) {
    all = aggregation::Merge(scan.line, leaders, all, child.summary);
    scan.popular = reduce::PopularBlocks::Merge(scan.popular, std::exchange(child.popular, {}), scan.common_most);
  }
  if (!scan.place.parent)
    return Finish(generation, scan, ScanReply{std::move(all), std::exchange(scan.popular, {}).OfSeveral(), 0});
  const std::string& parent = scan.line.nodes[*scan.place.parent].name;
  peers_.Call(job, parent, PeerKind::kScan,
              Encode(ScanRequest{generation, leaders, scan.options.stripe_bytes, scan.block_bytes, std::move(all),
                                 std::exchange(scan.popular, {})}),
              kScanTimeout, [this, generation](const Result<Buffer>& answer) {
                OnAnswer(generation, answer.ok() ? DecodeScanReply(*answer) : Result<ScanReply>(answer.status()));
              });
}

void Planner::OnAnswer(const Generation& generation, const Result<ScanReply>& answer) {
  const auto found = scans_.find(generation);
  if (found == scans_.end()) return;
  if (answer.ok() && !IsRootOf(found->second.line, found->second.options.counts.leaders, answer->root)) {
    return Finish(generation, found->second, Status(Code::kCorrupt, "the answer to a scan is not of these nodes"));
  }
  Finish(generation, found->second, answer);
}

void Planner::Finish(const Generation& generation, Scan& scan, const Result<ScanReply>& answer) {
  const auto bytes_of = [&](std::optional<uint32_t> node) {
    const auto child = node ? scan.children.find(*node) : scan.children.end();
    return child == scan.children.end() ? 0 : child->second.summary.bytes;
  };
  const auto tell = [&](std::optional<uint32_t> node, uint64_t before) {
    const auto child = node ? scan.children.find(*node) : scan.children.end();
    if (child == scan.children.end() || !child->second.answer) return;
    const auto say = std::exchange(child->second.answer, nullptr);
    say(answer.ok() ? Result<Buffer>(Encode(ScanReply{answer->root, answer->popular, before})) : Result<Buffer>(answer.status()));
  };
  if (!answer.ok()) {
    LogDebug("agent", "{} is not planned: {}", generation.ToString(), answer.status().ToString());
    tell(scan.place.left, 0);
    tell(scan.place.right, 0);
    return;
  }
  const uint64_t own_before = answer->before + bytes_of(scan.place.left);
  tell(scan.place.left, answer->before);
  tell(scan.place.right, own_before + *scan.offered);
  if (scan.answer) return;
  // Who asks once more hears of no common blocks, and does without.
  scan.answer = ScanReply{answer->root, {}, answer->before};
  WritePlan plan = PlanOf(scan.line, scan.options, scan.has_leaders, scan.self, *scan.offered, answer->root, own_before);
  plan.common = answer->popular;
  decided_(generation, plan);
}

void Planner::Tick() {
  const int64_t now_ns = core_.clock().NowNs();
  std::erase_if(scans_, [&](auto& entry) {
    if (now_ns - entry.second.begun_ns < kScanKept.count()) return false;
    for (auto& [node, child] : entry.second.children) {
      if (child.answer) child.answer(Status(Code::kTimeout, "not all nodes have said what they have"));
    }
    return true;
  });
}

}  // namespace kedge
