#include "agent/schedule/local_level.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/peers/peers.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

constexpr Duration kAnswerTimeout = std::chrono::seconds(5);
constexpr Duration kAskPause = std::chrono::seconds(2);  // for word that was lost
constexpr Duration kAskAgainPause = std::chrono::milliseconds(500);
constexpr size_t kUnpromisedMax = 16;

// Null: the job is on one node, or its nodes do not know each other.
const JobNode* LeaderOf(const Job& job) {
  return job.members.nodes.size() < 2 ? nullptr : job.ReachableLeader(job.members.attempt);
}

// Of the present attempt; null: none is known.
const Version* NewestComplete(const Job& job, const std::string& name) {
  const Version* newest = nullptr;
  for (const auto& [generation, version] : job.versions) {
    if (generation.name == name && generation.attempt == job.members.attempt && version->IsComplete()) newest = version.get();
  }
  return newest;
}

std::vector<std::string> NodesWithout(const Job& job, const LocalPromises& promises, const Generation& generation) {
  std::vector<std::string> missing;
  for (const JobNode& node : job.members.nodes) {
    const auto promised = promises.by_node.find(node.name);
    const bool is_there = promised != promises.by_node.end() && promised->second == generation;
    if (!is_there && missing.size() < kUnpromisedMax) missing.push_back(node.name);
  }
  return missing;
}

}  // namespace

LocalLevel::LocalLevel(AgentCore& core, ImageTable& images, Peers& peers, LocalRetention& retention)
    : core_(core), images_(images), peers_(peers), retention_(retention) {
  peers.service().On(PeerKind::kPromise, DecodeLocalPromise, std::bind_front(&LocalLevel::OnPromise, this));
  peers.service().On(PeerKind::kPromiseNews, DecodeLocalNews, std::bind_front(&LocalLevel::OnNews, this));
}

LocalPromises& LocalLevel::PromisesOf(Job& job, const std::string& name) {
  LocalPromises& promises = job.promises[name];
  if (promises.attempt != job.members.attempt) {
    promises = LocalPromises();
    promises.attempt = job.members.attempt;
  }
  return promises;
}

bool LocalLevel::IsPassedBy(const Version& version) {
  const auto promises = version.job->promises.find(version.generation.name);
  return promises != version.job->promises.end() && promises->second.attempt == version.generation.attempt &&
         promises->second.oldest.has_value() && version.generation < *promises->second.oldest && !version.IsComplete();
}

std::string LocalLevel::Missing(const Version& version) const {
  const Job& job = *version.job;
  const JobNode* leader = LeaderOf(job);
  if (leader == nullptr) return "the agents of the job's nodes do not know each other, so none knows what the others have";
  if (!version.IsPromised()) return "an older version has yet to get there, or to be passed by";
  const LocalPromises& promises = job.promises.at(version.generation.name);
  if (!promises.error.ok()) return fmt::format("node {} does not answer: {}", leader->name, promises.error.message());
  std::vector<std::string> missing;
  for (const JobNode& node : job.members.nodes) {
    if (std::find(promises.missing.begin(), promises.missing.end(), node.name) == promises.missing.end()) continue;
    const auto named = std::min<size_t>(node.ranks.size(), kUnpromisedMax);
    missing.push_back(fmt::format("node {} (ranks {})", node.name,
                                  fmt::join(node.ranks.begin(), node.ranks.begin() + static_cast<std::ptrdiff_t>(named), ", ")));
  }
  return fmt::format("missing: {}",
                     missing.empty() ? "node " + leader->name + "'s answer" : fmt::format("{}", fmt::join(missing, ", ")));
}

void LocalLevel::Consider(Job& job, const std::string& name) {
  if (LeaderOf(job) == nullptr) return;
  LocalPromises& promises = PromisesOf(job, name);
  if (promises.own.has_value()) {
    const Version* version = core_.FindVersion(*promises.own);
    const bool is_held = version != nullptr && version->IsWhole();
    if (is_held && !version->IsComplete()) return;
    if (!is_held) Withdraw(job, *promises.own);
    promises.own.reset();
  }
  const Version* oldest = nullptr;
  for (const auto& [generation, version] : job.versions) {
    if (generation.name != name || generation.attempt != promises.attempt) continue;
    if (version->IsComplete()) {
      oldest = nullptr;
    } else if (oldest == nullptr && version->IsWhole() && !IsPassedBy(*version)) {
      oldest = version.get();
    }
  }
  if (oldest == nullptr) return;
  promises.own = oldest->generation;
  promises.promised_ns = core_.clock().NowNs();
  promises.missing.clear();
  promises.error = Status::Ok();
  Ask(job, name);
}

void LocalLevel::OnRestored(Job& job, const Generation& generation) {
  SetComplete(job, generation);
}

// What it was made of is gone, which no promise could keep.
void LocalLevel::Withdraw(Job& job, const Generation& generation) {
  Send(job, {generation, core_.settings().node, false}, [](const Result<LocalReply>&) {});
}

void LocalLevel::Send(Job& job, const LocalPromise& promise, std::function<void(const Result<LocalReply>&)> done) {
  const JobNode* leader = LeaderOf(job);
  if (leader != nullptr && leader->name != core_.settings().node) {
    peers_.Call(job, leader->name, PeerKind::kPromise, Encode(promise), kAnswerTimeout,
                [done = std::move(done)](const Result<Buffer>& answer) {
                  done(answer.ok() ? DecodeLocalReply(*answer) : Result<LocalReply>(answer.status()));
                });
    return;
  }
  core_.loop().Post([this, promise, done = std::move(done)] {
    Job* found = core_.FindJobOf(promise.generation);
    if (found != nullptr) done(OnPromise(*found, promise));
  });
}

void LocalLevel::Ask(Job& job, const std::string& name) {
  LocalPromises& promises = PromisesOf(job, name);
  promises.ask_again = promises.asking;
  if (promises.asking || !promises.own.has_value()) return;
  promises.asking = true;
  Send(job, {*promises.own, core_.settings().node, true},
       [this, asked = *promises.own](const Result<LocalReply>& answer) { OnAnswer(asked, answer); });
}

void LocalLevel::AskLater(const Generation& asked, Duration pause) {
  core_.loop().AddTimer(pause, [this, asked] {
    Job* found = core_.FindJobOf(asked);
    if (found != nullptr && PromisesOf(*found, asked.name).own == asked) Ask(*found, asked.name);
  });
}

void LocalLevel::OnAnswer(const Generation& asked, const Result<LocalReply>& answer) {
  const std::string& name = asked.name;
  Job* job = core_.FindJobOf(asked);
  if (job == nullptr || asked.attempt != job->members.attempt) return;
  LocalPromises& promises = PromisesOf(*job, name);
  promises.asking = false;
  if (promises.own != asked) return Ask(*job, name);
  promises.error = answer.status();
  if (!answer.ok()) return AskLater(asked, kAskAgainPause);
  if (answer->complete) return SetComplete(*job, asked);
  if (answer->needed.has_value()) {
    LogDebug("agent", "{} is passed by: another node has {}", asked.ToString(), answer->needed->version);
    promises.own.reset();
    promises.oldest = answer->needed;
    return OnChange(*job, name);
  }
  promises.missing = answer->missing;
  promises.ask_again ? Ask(*job, name) : AskLater(asked, kAskPause);
}

void LocalLevel::SetComplete(Job& job, const Generation& generation) {
  Version* version = core_.FindVersion(generation);
  if (version != nullptr && !version->at_local) {
    version->at_local = true;
    for (const auto& [rank, image] : version->images) images_.Save(*image);
    os::KillPoint("local-complete");
  }
  if (version != nullptr) core_.events().level_reached(*version, Level::kLocal);
  LocalPromises& promises = PromisesOf(job, generation.name);
  if (promises.own == generation) promises.own.reset();
  OnChange(job, generation.name);
}

void LocalLevel::OnChange(Job& job, const std::string& name) {
  retention_.Reconsider(job, name);
  for (const auto& [generation, version] : job.versions) {
    if (generation.name == name) core_.events().version_changed(generation);
  }
}

Result<LocalReply> LocalLevel::OnPromise(Job& job, const LocalPromise& promise) {
  const Generation& generation = promise.generation;
  const JobNode* leader = LeaderOf(job);
  const auto& nodes = job.members.nodes;
  const bool is_member = std::any_of(nodes.begin(), nodes.end(), [&](const JobNode& node) { return node.name == promise.node; });
  if (leader == nullptr || leader->name != core_.settings().node || generation.attempt != job.members.attempt || !is_member) {
    return Status(Code::kMismatch, fmt::format("{}: node {} does not lead node {} in that attempt", generation.ToString(),
                                               core_.settings().node, promise.node));
  }
  LocalPromises& promises = PromisesOf(job, generation.name);
  promises.by_node.erase(promise.node);
  if (!promise.held) return LocalReply{};
  const auto is_complete = [&] {
    const Version* version = core_.FindVersion(generation);
    return version != nullptr && version->IsComplete();
  };
  if (is_complete()) return LocalReply{.complete = true};
  if (const Version* newest = NewestComplete(job, generation.name); newest != nullptr && generation < newest->generation) {
    return LocalReply{.needed = newest->generation};
  }
  promises.by_node[promise.node] = generation;
  Settle(job, generation.name, promise.node);
  if (is_complete()) return LocalReply{.complete = true};
  if (!promises.by_node.contains(promise.node)) return LocalReply{.needed = promises.newest};
  return LocalReply{.missing = NodesWithout(job, promises, generation)};
}

void LocalLevel::Settle(Job& job, const std::string& name, const std::string& asking) {
  LocalPromises& promises = PromisesOf(job, name);
  promises.newest = promises.by_node.begin()->second;
  for (const auto& [node, generation] : promises.by_node) promises.newest = std::max(*promises.newest, generation);
  const LocalNews news{*promises.newest, NodesWithout(job, promises, *promises.newest).empty()};
  // On file before anybody is told: a successor that did not know would wait for promises that nobody makes again.
  if (news.complete) SetComplete(job, news.generation);
  for (auto entry = promises.by_node.begin(); entry != promises.by_node.end();) {
    const auto& [node, generation] = *entry;
    const bool is_settled = news.complete || generation < news.generation;
    if (is_settled && node != asking && node != core_.settings().node) {
      // What does not arrive is asked for.
      peers_.Call(job, node, PeerKind::kPromiseNews, Encode(news), kAnswerTimeout, [](const Result<Buffer>&) {});
    } else if (is_settled && node != asking && !news.complete) {
      Ask(job, name);
    }
    entry = is_settled ? promises.by_node.erase(entry) : std::next(entry);
  }
}

void LocalLevel::OnNews(Job& job, const LocalNews& news) {
  if (news.generation.attempt != job.members.attempt) return;
  if (news.complete) return SetComplete(job, news.generation);
  Ask(job, news.generation.name);
}

}  // namespace kedge
