#include "agent/gather/stagers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/peers/peer_messages.h"
#include "agent/peers/peers.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"

namespace kedge {
namespace {

constexpr Duration kEnlistTimeout = std::chrono::seconds(3);
// Until staging agents are looked for again where none has answered.
constexpr Duration kFailurePause = std::chrono::seconds(5);

// Those that this node asks, one after the other: neighbours begin with different ones.
std::vector<std::string> InOrder(const Job& job, const std::string& self, const std::string& avoided) {
  const auto own = std::ranges::find(job.members.nodes, self, &JobNode::name);
  const size_t first = static_cast<size_t>(own - job.members.nodes.begin());
  std::vector<std::string> order;
  for (size_t i = 0; i < job.stagers.size(); ++i) {
    order.push_back(job.stagers[(first + i) % job.stagers.size()].name);
  }
  std::stable_partition(order.begin(), order.end(), [&](const std::string& name) { return name != avoided; });
  return order;
}

}  // namespace

void Stagers::Seek(const Job& job) {
  State& state = states_[job.key()];
  if (!HasThem(job) || job.is_enlisted || state.sought_attempt == job.members.attempt) return;
  state.sought_attempt = job.members.attempt;
  Job& seeking = *core_.FindJob(job.key());
  seeking.enlisted_at.clear();
  seeking.seeks_stagers = true;
  peers_.OpenThen([this, key = job.key(), folder = job.hello.keys.staging_folder] {
    core_.Background([folder] { return FindStaging(folder); },
                     [this, key](const Result<StagingNetwork>& network) { OnSought(key, network); });
  });
}

void Stagers::OnSought(const JobKey& key, const Result<StagingNetwork>& network) {
  Job* const job = core_.FindJob(key);
  if (job == nullptr) return;
  const Status joined = network.ok() ? Join(*job, *network) : network.status();
  const auto left = std::make_shared<size_t>(joined.ok() ? network->agents.size() : 0);
  job->seeks_stagers = *left > 0;
  if (!job->seeks_stagers) return;
  for (const JobNode& stager : network->agents) {
    const auto enlisted = [this, key, attempt = job->members.attempt, left, node = stager.name](const Status& status) {
      Job* const told = core_.FindJob(key);
      if (told == nullptr || told->members.attempt != attempt) return;
      if (status.ok()) told->enlisted_at.insert(node);
      told->seeks_stagers = --*left > 0;
    };
    EnlistAt(*job, network->Name(), stager.name, enlisted);
  }
}

Status Stagers::Join(Job& job, const StagingNetwork& network) {
  if (!peers_.is_open()) return Status(Code::kUnavailable, "there is no network");
  net::Membership staging = network.MembershipOf(core_.settings().node);
  staging.is_guest = true;
  job.stagers = network.agents;
  KEDGE_RETURN_IF_ERROR(peers_.network()->Join(std::move(staging)));
  return peers_.Join(job);
}

void Stagers::EnlistAt(const Job& job, const std::string& network, const std::string& node, std::function<void(Status)> done) {
  peers_.network()->Call({network, node}, static_cast<uint16_t>(PeerKind::kEnlist), Encode(EnlistRequest{job.hello, job.members}),
                         kEnlistTimeout, [done = std::move(done)](const Result<Buffer>& answer) { done(answer.status()); });
}

void Stagers::Find(Job& job, Found found) {
  State& state = states_[job.key()];
  if (state.attempt != job.members.attempt && state.waiting.empty()) {
    const uint32_t sought_attempt = state.sought_attempt;
    state = State();
    state.attempt = job.members.attempt;
    state.sought_attempt = sought_attempt;
  }
  if (!state.node.empty()) return found(state.node);
  const int64_t now_ns = core_.clock().NowNs();
  if (!state.failure.ok() && now_ns - state.failed_ns < kFailurePause.count()) return found(state.failure);
  state.waiting.push_back(std::move(found));
  if (state.waiting.size() > 1) return;
  core_.Background([folder = job.hello.keys.staging_folder] { return FindStaging(folder); },
                   [this, key = job.key()](const Result<StagingNetwork>& network) { OnRead(key, network); });
}

void Stagers::Avoid(const Job& job, const std::string& node) {
  const auto state = states_.find(job.key());
  if (state == states_.end() || state->second.node != node) return;
  state->second.node.clear();
  state->second.avoided = node;
}

void Stagers::OnRead(const JobKey& key, const Result<StagingNetwork>& network) {
  Job* const job = core_.FindJob(key);
  if (!network.ok()) return Finish(key, network.status());
  if (job == nullptr) return Finish(key, Status(Code::kUnavailable, "the job is over"));
  const Status joined = Join(*job, *network);
  if (!joined.ok()) return Finish(key, joined);
  Enlist(key, network->Name(), InOrder(*job, core_.settings().node, states_[key].avoided));
}

void Stagers::Enlist(const JobKey& key, const std::string& network, std::vector<std::string> candidates) {
  const Job* const job = core_.FindJob(key);
  if (job == nullptr || peers_.network() == nullptr || candidates.empty()) {
    return Finish(key, Status(Code::kUnavailable, "no staging agent answers"));
  }
  const std::string node = candidates.front();
  candidates.erase(candidates.begin());
  EnlistAt(*job, network, node, [this, key, network, node, left = std::move(candidates)](const Status& status) {
    if (status.ok()) return Finish(key, node);
    LogWarning("agent", "job {}: staging agent {} does not write for it: {}", key.second, node, status.ToString());
    Enlist(key, network, left);
  });
}

void Stagers::Finish(const JobKey& key, const Result<std::string>& node) {
  State& state = states_[key];
  state.node = node.ok() ? *node : std::string();
  state.failure = node.status();
  state.failed_ns = core_.clock().NowNs();
  if (node.ok()) {
    LogInfo("agent", "job {}: staging agent {} writes the images of this node", key.second, *node);
  } else {
    LogWarning("agent", "job {}: this node writes its own images: {}", key.second, node.status().ToString());
  }
  for (const Found& found : std::exchange(state.waiting, {})) found(node);
}

}  // namespace kedge
