#include "agent/peers/measure_peers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "agent/peers/peers.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/members.h"
#include "agent/tables/session.h"

namespace kedge {
namespace {

constexpr size_t kReachedAtOnce = 32;
constexpr Duration kTimeMax = std::chrono::hours(1);

bool HasOtherNodes(const Job& job, const std::string& self) {
  return std::any_of(job.members.nodes.begin(), job.members.nodes.end(),
                     [&](const JobNode& node) { return node.name != self && !node.address.empty(); });
}

std::string AddressOf(const Job& job, const std::string& name) {
  const auto node =
      std::find_if(job.members.nodes.begin(), job.members.nodes.end(), [&](const JobNode& one) { return one.name == name; });
  const auto address = node == job.members.nodes.end() ? std::nullopt : net::NodeAddress::FromText(node->address);
  return address.has_value() ? address->ToDisplay() : std::string();
}

}  // namespace

struct MeasurePeers::Run {
  explicit Run(const Question& of) : question(of) {}
  const Question question;
  std::vector<net::Peer> peers;  // as reply.nodes
  MeasureReply reply;
  net::MeasureBounds bounds;
  int64_t end_ns = 0;
  size_t asked = 0;  // of `peers`, from the first on
  size_t under_way = 0;
  size_t measured = 0;
};

// Several of one name lie in different stores: the one that runs is meant.
Result<const Job*> MeasurePeers::Choose(const std::string& name) const {
  const std::string& self = core_.settings().node;
  std::set<const Job*> running;
  for (const Session* session : core_.sessions().all()) running.insert(session->job);
  std::set<std::string> names;
  const Job* chosen = nullptr;
  for (const auto& [key, job] : core_.jobs()) {
    if ((!name.empty() && job->name != name) || !HasOtherNodes(*job, self)) continue;
    names.insert(job->name);
    if (chosen == nullptr || running.contains(job.get())) chosen = job.get();
  }
  if (chosen == nullptr || !peers_.is_open()) {
    return Status(Code::kNotFound, fmt::format("the agent of node {} knows no job{} whose nodes know each other", self,
                                               name.empty() ? "" : " " + name));
  }
  if (names.size() > 1) {
    return Status(Code::kInvalidArgument, fmt::format("the agent of node {} knows several jobs whose nodes know each other ({}): "
                                                      "name one with --job",
                                                      self, fmt::join(names, ", ")));
  }
  return chosen;
}

MeasurePeers::MeasurePeers(AgentCore& core, Peers& peers) : core_(core), peers_(peers) {
  core.requests().On<MeasureRequest>(std::bind_front(&MeasurePeers::Measure, this));
}

void MeasurePeers::Measure(const MeasureRequest& request, const Question& question) {
  const Result<const Job*> chosen = Choose(request.job);
  if (!chosen.ok()) return question.Answer(chosen.status());
  if (running_ != nullptr) {
    return question.Answer(
        Status(Code::kBusy,
               fmt::format("the agent of node {} is measuring for somebody else; ask again in a moment", core_.settings().node)));
  }
  const Job& job = **chosen;
  auto run = std::make_shared<Run>(question);
  run->end_ns = core_.clock().NowNs() + std::clamp(request.timeout, Duration::zero(), kTimeMax).count();
  run->reply.node = core_.settings().node;
  run->reply.job = job.name;
  run->reply.attempt = job.members.attempt;
  run->reply.provider = peers_.network()->address().provider;
  const auto reach = request.all_nodes ? kedge::Reach::kJob : kedge::Reach::kGroup;
  for (const std::string& node : MembersWithin(job, run->reply.node, reach)) {
    run->peers.push_back(Peers::PeerOf(job, node));
    MeasuredNode& measured = run->reply.nodes.emplace_back();
    measured.node = node;
    measured.address = AddressOf(job, node);
  }
  running_ = run;
  Reach(run);
  if (run->peers.empty()) MeasureNext(run);
}

void MeasurePeers::Reach(const std::shared_ptr<Run>& run) {
  while (run->asked < run->peers.size() && run->under_way < kReachedAtOnce) {
    const size_t index = run->asked++;
    ++run->under_way;
    peers_.network()->Call(run->peers[index], kMeasureKinds.echo, {}, run->bounds.request_timeout,
                           [this, run, index](const Result<Buffer>& reply) { OnReached(run, index, reply.status()); });
  }
}

void MeasurePeers::OnReached(const std::shared_ptr<Run>& run, size_t index, const Status& status) {
  run->reply.nodes[index].is_reached = status.ok();
  run->reply.nodes[index].failure = status;
  --run->under_way;
  Reach(run);
  if (run->under_way == 0) MeasureNext(run);
}

void MeasurePeers::MeasureNext(const std::shared_ptr<Run>& run) {
  const bool is_late = core_.clock().NowNs() >= run->end_ns;
  for (; run->measured < run->peers.size(); ++run->measured) {
    MeasuredNode& node = run->reply.nodes[run->measured];
    if (!node.is_reached) continue;
    if (!is_late) break;
    node.failure = Status(Code::kTimeout, fmt::format("node {} answers, but its turn did not come in time", node.node));
  }
  const bool is_wanted = run->question.IsWanted();
  if (run->measured == run->peers.size() || !is_wanted) {
    running_ = nullptr;
    if (is_wanted) run->question.Answer(run->reply);
    return;
  }
  const size_t index = run->measured++;
  net::MeasurePeer(peers_.network(), run->peers[index], kMeasureKinds, run->bounds,
                   [this, run, index](const net::PeerFigures& figures) {
                     // Not here: it may be the network's thread.
                     core_.loop().Post([this, run, index, figures] { OnMeasured(run, index, figures); });
                   });
}

void MeasurePeers::OnMeasured(const std::shared_ptr<Run>& run, size_t index, const net::PeerFigures& figures) {
  MeasuredNode& node = run->reply.nodes[index];
  node.round_trip_ns = static_cast<uint64_t>(figures.round_trip_seconds * 1e9);
  node.read_bytes_per_second = static_cast<uint64_t>(figures.read_bytes_per_second);
  node.failure = figures.failure;
  if (peers_.is_open()) MeasureNext(run);
}

}  // namespace kedge
