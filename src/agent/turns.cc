#include "agent/turns.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "agent/agent.h"
#include "agent/flush.h"
#include "agent/images.h"
#include "agent/peers.h"
#include "agent/protect.h"
#include "agent/sessions.h"
#include "agent/tuning.h"
#include "agent/waiters.h"
#include "base/log.h"
#include "schedule/schedule.h"
#include "store/versions.h"

namespace kedge {
namespace {

constexpr Duration kAnswerTimeout = std::chrono::seconds(2);
constexpr Duration kPauseMin = std::chrono::milliseconds(10);  // before the same is asked again; then twice as long each
constexpr Duration kPauseMax = std::chrono::milliseconds(500);
constexpr Duration kLate = std::chrono::seconds(1);
constexpr Duration kSilenceMax = std::chrono::seconds(10);
constexpr size_t kDecisionsKept = 256;

ScheduleRule RuleOf(const Job& job) {
  const JobKeys& keys = job.hello.keys;
  ScheduleRule rule{{false, {}}, {keys.schedule_store > 0, keys.schedule_store_interval}};
  if (keys.Protects() && Protect::CanProtect(job)) rule.node = {true, keys.schedule_node_interval};
  return rule;
}

bool IsLimited(const ScheduleRule& rule, const ScheduledLevels& due) {
  const auto is_limited = [](const LevelRule& level, bool is_due) {
    return level.allowed && is_due && level.interval > Duration::zero();
  };
  return is_limited(rule.node, due.node) || is_limited(rule.store, due.store);
}

// The node whose agent decides for the attempt; none: they do not know each other, or it has no agent that could.
std::optional<std::string> DecidingNode(const Job& job, uint32_t attempt) {
  if (job.members.attempt != attempt) return std::nullopt;
  for (const JobNode& node : job.members.nodes) {
    const bool has_first = std::find(node.ranks.begin(), node.ranks.end(), 0u) != node.ranks.end();
    if (has_first && !node.address.empty()) return node.name;
  }
  return std::nullopt;
}

}  // namespace

void Turns::Schedule(Version& version, const ScheduledLevels& due) {
  const Job& job = *version.job;
  const auto deciding = DecidingNode(job, version.generation.attempt);
  const bool is_asked = deciding.has_value() && *deciding != agent_.settings().node && agent_.peers().is_open();
  if (!is_asked || !IsLimited(RuleOf(job), due)) return SetLevels(version, ByOwnClock(version, due));
  version.scheduled = Level::kLocal;
  version.undecided = Undecided{due, agent_.clock().NowNs(), kPauseMin};
  Ask(version.generation);
}

ScheduledLevels Turns::ByOwnClock(Version& version, const ScheduledLevels& due) {
  Job& job = *version.job;
  ScheduleRule rule = RuleOf(job);
  const bool is_limited = IsLimited(rule, due);
  ScheduledLevels wanted = due;
  // The last one before the job ends, or one of the last: whoever goes on may go on elsewhere.
  if (job.calls.halt) wanted.store = true, rule.store.interval = {};
  const Generation& generation = version.generation;
  const ScheduledLevels levels = ScheduleVersion(rule, wanted, generation.attempt, WallTimeNs(), &job.schedule[generation.name]);
  if (!is_limited) return levels;
  Remember(job, generation, levels);
  agent_.sessions().SaveJob(job);
  return levels;
}

void Turns::Remember(Job& job, const Generation& generation, const ScheduledLevels& levels) {
  job.turns.emplace_back(generation, levels);
  if (job.turns.size() > kDecisionsKept) job.turns.pop_front();
}

void Turns::SetLevels(Version& version, const ScheduledLevels& levels) {
  version.scheduled = levels.Last();
  version.to_node = levels.node;
  agent_.tuning().OnScheduled(version);
}

void Turns::OnAsked(Job& job, const TurnRequest& request, const std::function<void(const TurnReply&)>& answer) {
  const Generation& generation = request.generation;
  bool is_passed = !agent_.sessions().HasAttempt(job, generation.attempt);
  for (auto turn = job.turns.rbegin(); turn != job.turns.rend(); ++turn) {
    const Generation& decided = turn->first;
    if (decided == generation) return answer({true, turn->second});
    // One that is taken again is older by its number, and yet to come.
    is_passed = is_passed || (decided.name == generation.name && decided.attempt == generation.attempt &&
                              decided.version > generation.version && generation.take == 1);
  }
  // Before this agent it was decided by another, which left its images.
  const Version* version = agent_.images().FindVersion(generation);
  if (version != nullptr && !version->undecided) return answer({true, {version->to_node, version->scheduled >= Level::kStore}});
  if (!is_passed && !request.is_late) return answer({});
  agent_.Background(
      [store = job.store, generation] {
        auto catalog = store->CatalogFor(generation.attempt);
        auto info = catalog.ok() ? InspectGeneration(*catalog, generation) : Result<VersionInfo>(catalog.status());
        if (!info.ok() || info->ranks == 0) return false;
        return std::find(info->missing_ranks.begin(), info->missing_ranks.end(), 0u) == info->missing_ranks.end();
      },
      [this, generation, is_passed, answer](bool has_gone_there) {
        Job* found = agent_.FindJob(generation.store_id, generation.job);
        const bool is_decided = is_passed || has_gone_there;
        const ScheduledLevels levels{false, has_gone_there};
        if (is_decided && found != nullptr) Remember(*found, generation, levels);
        answer({is_decided, levels});
      });
}

void Turns::Ask(const Generation& generation) {
  const Job* job = agent_.FindJob(generation.store_id, generation.job);
  const auto deciding = DecidingNode(*job, generation.attempt);
  if (!deciding.has_value()) {
    agent_.loop().Post([this, generation] { OnAnswer(generation, Status(Code::kNotFound, "its attempt is over")); });
    return;
  }
  const int64_t since_ns = agent_.images().FindVersion(generation)->undecided->since_ns;
  const TurnRequest request{generation, agent_.clock().NowNs() - since_ns > kLate.count()};
  agent_.peers().Call(*job, *deciding, PeerKind::kTurn, Encode(request), kAnswerTimeout,
                      [this, generation](const Result<Buffer>& answer) {
                        OnAnswer(generation, answer.ok() ? DecodeTurnReply(*answer) : Result<TurnReply>(answer.status()));
                      });
}

void Turns::OnAnswer(const Generation& generation, const Result<TurnReply>& answer) {
  Version* version = agent_.images().FindVersion(generation);
  if (version == nullptr || !version->undecided) return;
  if (answer.ok() && answer->decided) return Decide(*version, answer->levels);
  Undecided& undecided = *version->undecided;
  const int64_t now_ns = agent_.clock().NowNs();
  if (answer.ok()) undecided.heard_ns = now_ns;
  const bool is_over = !agent_.sessions().HasAttempt(*version->job, generation.attempt);
  if (is_over && (!answer.ok() || now_ns - undecided.since_ns > kSilenceMax.count())) return Decide(*version, {});
  if (now_ns - undecided.heard_ns > kSilenceMax.count()) {
    LogWarning("agent", "{}: the agent of rank 0 does not say which levels it is to reach, so this node's clock does: {}",
               generation.ToString(), answer.status().ToString());
    return Decide(*version, ByOwnClock(*version, undecided.due));
  }
  agent_.loop().AddTimer(undecided.pause, [this, generation] {
    const Version* waiting = agent_.images().FindVersion(generation);
    if (waiting != nullptr && waiting->undecided) Ask(generation);
  });
  undecided.pause = std::min(undecided.pause * 2, kPauseMax);
}

void Turns::Decide(Version& version, const ScheduledLevels& levels) {
  version.undecided.reset();
  SetLevels(version, levels);
  const Generation generation = version.generation;
  Job& job = *version.job;
  std::vector<Image*> images;
  for (const auto& [rank, image] : version.images) {
    if (!image->doomed) images.push_back(image.get());
  }
  for (Image* image : images) {
    if (levels.store) agent_.flush().Start(*image);
    agent_.images().SaveFile(*image);
    if (!levels.store && image->ended && !agent_.protect().IsOwed(version)) agent_.images().OnSettled(*image);
  }
  agent_.protect().Consider(version);
  agent_.images().Reconsider(job, generation.name);
  agent_.waiters().Check(generation);
  agent_.Nudge();
}

void Turns::Recover() {
  for (const auto& [key, job] : agent_.jobs()) {
    for (const auto& [generation, version] : job->versions) {
      if (version->undecided) Ask(generation);
    }
  }
}

}  // namespace kedge
