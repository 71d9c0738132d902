#include "agent/schedule/turns.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "agent/images/image_flusher.h"
#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/peers/peers.h"
#include "agent/schedule/tuning.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "schedule/schedule.h"
#include "store/versions.h"

namespace kedge {
namespace {

constexpr Duration kTurnTimeout = std::chrono::seconds(2);
constexpr Duration kTurnPauseMin = std::chrono::milliseconds(10);  // before the same is asked again; then twice as long each
constexpr Duration kTurnPauseMax = std::chrono::milliseconds(500);
constexpr Duration kLate = std::chrono::seconds(1);
constexpr Duration kLookPause = std::chrono::seconds(3);
// Longer than the network needs to reach the successor of an agent that died.
constexpr Duration kSilenceMax = std::chrono::seconds(15);
constexpr size_t kDecisionsKept = 64;

ScheduleRule RuleOf(const Job& job) {
  const JobKeys& keys = job.hello.keys;
  ScheduleRule rule{{false, {}}, {keys.schedule_store > 0, keys.schedule_store_interval}};
  if (keys.Protects() && job.CanProtect()) rule.node = {true, keys.schedule_node_interval};
  return rule;
}

bool IsLimited(const ScheduleRule& rule, const ScheduledLevels& due) {
  const auto is_limited = [](const LevelRule& level, bool is_due) {
    return level.allowed && is_due && level.interval > Duration::zero();
  };
  return is_limited(rule.node, due.node) || is_limited(rule.store, due.store);
}

const ScheduledLevels* FindTurn(const Job& job, const Generation& generation) {
  const auto found = std::find_if(job.turns.begin(), job.turns.end(), [&](const auto& turn) { return turn.first == generation; });
  return found == job.turns.end() ? nullptr : &found->second;
}

}  // namespace

Turns::Turns(AgentCore& core, ImageFlusher& flush, ImageTable& images, Peers& peers, LocalRetention& retention, Tuning& tuning)
    : core_(core), flush_(flush), images_(images), peers_(peers), retention_(retention), tuning_(tuning) {
  peers.service().On(PeerKind::kTurn, DecodeTurnRequest, std::bind_front(&Turns::OnAsked, this));
}

void Turns::Schedule(Version& version, const ScheduledLevels& due) {
  const Job& job = *version.job;
  const JobNode* deciding = job.ReachableLeader(version.generation.attempt);
  const bool is_asked = deciding != nullptr && deciding->name != core_.settings().node && peers_.is_open();
  if (!is_asked || !IsLimited(RuleOf(job), due)) return SetLevels(version, ByOwnClock(version, due));
  version.Schedule(Level::kLocal);
  LeaveUndecided(version, due);
  Ask(version);
}

void Turns::LeaveUndecided(Version& version, const ScheduledLevels& due) const {
  const int64_t now_ns = core_.clock().NowNs();
  const JobNode* deciding = version.job->ReachableLeader(version.generation.attempt);
  version.undecided = Undecided{due, deciding == nullptr ? std::string() : deciding->name, now_ns, now_ns, kTurnPauseMin};
}

ScheduledLevels Turns::ByOwnClock(Version& version, const ScheduledLevels& due) {
  Job& job = *version.job;
  const Generation& generation = version.generation;
  // Also of images that are gone: others may have been told.
  if (const ScheduledLevels* decided = FindTurn(job, generation)) return *decided;
  ScheduleRule rule = RuleOf(job);
  const bool is_limited = IsLimited(rule, due);
  ScheduledLevels wanted = due;
  // The last one before the job ends, or one of the last: whoever goes on may go on elsewhere.
  if (job.halt.asked()) wanted.store = true, rule.store.interval = {};
  const ScheduledLevels levels = ScheduleVersion(rule, wanted, generation.attempt, WallTimeNs(), &job.schedule[generation.name]);
  if (is_limited) Remember(job, generation, levels);
  return levels;
}

void Turns::Remember(Job& job, const Generation& generation, const ScheduledLevels& levels) {
  if (FindTurn(job, generation) != nullptr) return;
  job.turns.emplace_back(generation, levels);
  if (job.turns.size() > kDecisionsKept) job.turns.pop_front();
  core_.events().job_changed(job);
}

void Turns::SetLevels(Version& version, const ScheduledLevels& levels) {
  version.Schedule(levels.Last());
  version.to_node = levels.node;
  if (levels.store) core_.events().store_due(version);
  tuning_.OnScheduled(version);
}

TurnReply Turns::OnAsked(const Job& job, const TurnRequest& request) {
  const Generation& generation = request.generation;
  if (const ScheduledLevels* decided = FindTurn(job, generation)) return {true, *decided};
  const Version* version = core_.FindVersion(generation);
  if (version != nullptr && !version->undecided) return {true, {version->to_node, version->scheduled() >= Level::kStore}};
  // Ranks are a little apart as a rule.
  if (request.is_late) {
    const bool is_over = !core_.sessions().HasAttempt(job, generation.attempt);
    LookIntoStore(job, generation, is_over || job.HasPassedOver(generation, 0));
  }
  return {};
}

void Turns::LookIntoStore(const Job& job, const Generation& generation, bool is_passed) {
  const int64_t now_ns = core_.clock().NowNs();
  std::erase_if(looked_ns_, [&](const auto& look) { return now_ns - look.second > kLookPause.count(); });
  if (!looked_ns_.emplace(generation, now_ns).second) return;
  core_.Background(
      [store = job.store, generation] {
        auto catalog = store->CatalogFor(generation.attempt);
        auto info = catalog.ok() ? InspectGeneration(*catalog, generation) : Result<VersionInfo>(catalog.status());
        if (!info.ok() || info->ranks == 0) return false;
        return std::find(info->missing_ranks.begin(), info->missing_ranks.end(), 0u) == info->missing_ranks.end();
      },
      [this, generation, is_passed](bool has_gone_there) {
        Job* found = core_.FindJobOf(generation);
        if (found != nullptr && (is_passed || has_gone_there)) Remember(*found, generation, {false, has_gone_there});
      });
}

void Turns::Ask(const Version& version) {
  const Generation& generation = version.generation;
  const Undecided& undecided = *version.undecided;
  if (undecided.node.empty()) {
    core_.loop().Post([this, generation] { OnAnswer(generation, Status(Code::kNotFound, "the nodes know each other no more")); });
    return;
  }
  const TurnRequest request{generation, core_.clock().NowNs() - undecided.since_ns > kLate.count()};
  peers_.Call(*version.job, undecided.node, PeerKind::kTurn, Encode(request), kTurnTimeout,
              [this, generation](const Result<Buffer>& answer) {
                OnAnswer(generation, answer.ok() ? DecodeTurnReply(*answer) : Result<TurnReply>(answer.status()));
              });
}

void Turns::OnAnswer(const Generation& generation, const Result<TurnReply>& answer) {
  Version* version = core_.FindVersion(generation);
  if (version == nullptr || !version->undecided) return;
  if (answer.ok() && answer->decided) return Decide(*version, answer->levels);
  Undecided& undecided = *version->undecided;
  const int64_t now_ns = core_.clock().NowNs();
  if (answer.ok()) undecided.heard_ns = now_ns;
  if (now_ns - undecided.heard_ns > kSilenceMax.count()) {
    if (!core_.sessions().HasAttempt(*version->job, generation.attempt)) return Decide(*version, {});
    LogWarning("agent", "{}: the agent of rank 0 does not say which levels it is to reach, so this node's clock does: {}",
               generation.ToString(), answer.status().ToString());
    return Decide(*version, ByOwnClock(*version, undecided.due));
  }
  core_.loop().AddTimer(undecided.pause, [this, generation] {
    const Version* waiting = core_.FindVersion(generation);
    if (waiting != nullptr && waiting->undecided) Ask(*waiting);
  });
  undecided.pause = std::min(undecided.pause * 2, kTurnPauseMax);
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
    if (levels.store && image->flush == FlushState::kNone) flush_.Start(*image);
    images_.Save(*image);
    if (!levels.store && image->ended && !version.IsOwedToNodes()) images_.OnSettled(*image);
  }
  core_.events().protection_due(version);
  retention_.Reconsider(job, generation.name);
  core_.events().version_changed(generation);
  core_.Nudge();
}

void Turns::Recover() {
  for (const auto& [key, job] : core_.jobs()) {
    for (const auto& [generation, version] : job->versions) {
      if (version->undecided) Ask(*version);
    }
  }
}

void Turns::Save(const DecidedTurns& turns, Encoder& encoder) {
  encoder.Varint(turns.size());
  for (const auto& [generation, levels] : turns) {
    encoder.String(generation.name);
    encoder.I64(generation.version);
    encoder.Varint(generation.attempt);
    encoder.Varint(generation.take);
    encoder.Varint(EncodeDueLevels(levels));
  }
}

void Turns::Load(Decoder& decoder, const Hello& hello, DecidedTurns* turns) {
  for (size_t left = decoder.Count(5); left > 0 && decoder.ok(); --left) {
    Generation generation{hello.store_id, hello.job, std::string(decoder.String(kNameBytesMax))};
    generation.version = decoder.I64();
    generation.attempt = decoder.Varint32();
    generation.take = decoder.Varint32();
    turns->emplace_back(std::move(generation), DecodeDueLevels(decoder.Varint32()));
  }
}

}  // namespace kedge
