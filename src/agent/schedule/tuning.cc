#include "agent/schedule/tuning.h"

#include <algorithm>
#include <utility>

#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

constexpr int64_t kAdvicePeriodNs = 10'000'000'000;
constexpr size_t kRestartsKept = 64;
constexpr uint32_t kVersionsBetweenChanges = 2;
// Of one look into a mailbox, whose owner can write anything there: what exceeds this is no measurement.
constexpr uint64_t kCallsMax = 1'000'000;
constexpr uint64_t kNanosecondsMax = uint64_t{1} << 58;

// What was added since the last look.
ObservedSeconds Take(const CallTotals& totals, CallsSeen* seen) {
  const CallsSeen now{totals.calls.load(std::memory_order_acquire), totals.nanoseconds.load(std::memory_order_relaxed)};
  const CallsSeen before = std::exchange(*seen, now);
  const uint64_t calls = now.calls - before.calls;
  const uint64_t nanoseconds = now.nanoseconds - before.nanoseconds;
  if (calls > kCallsMax || nanoseconds > kNanosecondsMax) return {};
  return {static_cast<double>(nanoseconds) * 1e-9, calls};
}

// The oldest go first.
void Note(uint32_t attempt, std::set<uint32_t>* attempts) {
  attempts->insert(attempt);
  if (attempts->size() > kRestartsKept) attempts->erase(attempts->begin());
}

// What the job's file keeps of the measurements, in its order.
constexpr ObservedSeconds JobMeasurement::*kObserved[] = {&JobMeasurement::blocked,      &JobMeasurement::protection,
                                                          &JobMeasurement::background,   &JobMeasurement::restart_local,
                                                          &JobMeasurement::restart_node, &JobMeasurement::restart_store};

void Save(const ObservedSeconds& observed, Encoder& encoder) {
  encoder.F64(observed.sum);
  encoder.Varint(observed.count);
}

void Load(Decoder& decoder, ObservedSeconds* observed) {
  observed->sum = decoder.F64();
  observed->count = decoder.Varint();
  decoder.Require(observed->sum >= 0 && observed->sum < 1e15, "a sum of seconds is out of range");
}

}  // namespace

void Tuning::OnAttached(Session& session) {
  Job& job = *session.job;
  Tell(job);
  if (session.hello.rank == 0 && session.hello.attempt > job.tuning.history_attempt) ReadHistory(job);
}

void Tuning::ReadHistory(Job& job) {
  JobTuning& tuning = job.tuning;
  tuning.history_attempt = job.hello.attempt;
  tuning.history_known = false;
  tuning.attempt_seconds = 0;
  core_.Background(
      [store = job.store, name = job.name, attempt = job.hello.attempt]() -> Result<AttemptHistory> {
        KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, store->CatalogFor(attempt));
        return ReadAttemptHistory(catalog, name, attempt);
      },
      [this, key = job.key(), attempt = job.hello.attempt](Result<AttemptHistory> history) {
        Job* found = core_.FindJob(key);
        if (found == nullptr || found->tuning.history_attempt != attempt) return;
        if (!history.ok()) {
          LogWarning("agent", "how often job {} has died is not known: {}", key.second, history.status().ToString());
          return;
        }
        found->tuning.history = std::move(*history);
        found->tuning.history_known = true;
        found->tuning.changed = true;
      });
}

void Tuning::Collect(Session& session) {
  if (session.ended || session.broken) return;
  const Mailbox& box = session.box();
  JobTuning& tuning = session.job->tuning;
  const ObservedSeconds blocked = Take(box.checkpoints, &session.checkpoints_seen);
  const ObservedSeconds local = Take(box.restarts_local, &session.restarts_local_seen);
  const ObservedSeconds node = Take(box.restarts_node, &session.restarts_node_seen);
  const ObservedSeconds store = Take(box.restarts_store, &session.restarts_store_seen);
  if (blocked.count + local.count + node.count + store.count == 0) return;
  tuning.measured.blocked.Add(blocked.sum, blocked.count);
  tuning.measured.restart_local.Add(local.sum, local.count);
  tuning.measured.restart_node.Add(node.sum, node.count);
  tuning.measured.restart_store.Add(store.sum, store.count);
  if (node.count > 0) Note(session.hello.attempt, &tuning.node_restarts);
  if (store.count > 0) Note(session.hello.attempt, &tuning.store_restarts);
  tuning.changed = true;
}

void Tuning::MarkCollected(Session& session) {
  (void)Take(session.box().checkpoints, &session.checkpoints_seen);
  (void)Take(session.box().restarts_local, &session.restarts_local_seen);
  (void)Take(session.box().restarts_node, &session.restarts_node_seen);
  (void)Take(session.box().restarts_store, &session.restarts_store_seen);
}

void Tuning::OnStored(const Image& image) {
  // When a predecessor's image was captured is not known.
  if (image.recovered) return;
  JobTuning& tuning = image.version->job->tuning;
  tuning.measured.background.Add(1e-9 * static_cast<double>(core_.clock().NowNs() - image.ended_ns));
  tuning.changed = true;
}

void Tuning::OnProtected(const Version& version) {
  // One that was restored is protected anew, long after its call.
  if (version.restored) return;
  JobTuning& tuning = version.job->tuning;
  for (const auto& [rank, image] : version.images) {
    if (image->recovered || !image->ended || image->doomed) continue;
    tuning.measured.protection.Add(1e-9 * static_cast<double>(core_.clock().NowNs() - image->ended_ns));
    tuning.changed = true;
  }
}

void Tuning::Tick() {
  const int64_t now = core_.clock().NowNs();
  const double passed = ticked_ns_ == 0 ? 0 : 1e-9 * static_cast<double>(now - ticked_ns_);
  ticked_ns_ = now;
  for (Session* session : core_.sessions().all()) Collect(*session);
  for (auto& [key, job] : core_.jobs()) {
    JobTuning& tuning = job->tuning;
    if (!core_.sessions().HasAttempt(*job, job->hello.attempt)) continue;
    NoteLevels(*job);
    Tell(*job);
    tuning.attempt_seconds += passed;
    if (tuning.changed && !tuning.advising && (tuning.advised_ns == 0 || now - tuning.advised_ns >= kAdvicePeriodNs))
      Advise(*job);
  }
}

JobMeasurement Tuning::Measured(const Job& job) {
  for (Session* session : core_.sessions().all()) {
    if (session->job == &job) Collect(*session);
  }
  const JobTuning& tuning = job.tuning;
  JobMeasurement measured = tuning.measured;
  measured.observed_seconds = tuning.history.seconds + tuning.attempt_seconds;
  for (const uint32_t failed : tuning.history.failed) {
    ++(tuning.store_restarts.contains(failed + 1)  ? measured.failures_store
       : tuning.node_restarts.contains(failed + 1) ? measured.failures_node
                                                   : measured.failures_local);
  }
  return measured;
}

void Tuning::Advise(Job& job) {
  JobTuning& tuning = job.tuning;
  const JobKeys& keys = job.hello.keys;
  NoteLevels(job);
  const LevelCounts levels = LevelsInForce(job);
  const IntervalRule rule{.node_every = levels.node_every,
                          .store_every = levels.store_every,
                          .mtbf_local_seconds = ToSeconds(keys.schedule_mtbf_local),
                          .mtbf_node_seconds = ToSeconds(keys.schedule_mtbf_node),
                          .mtbf_store_seconds = ToSeconds(keys.schedule_mtbf_store)};
  const JobMeasurement measured = Measured(job);
  tuning.changed = false;
  tuning.advising = true;
  core_.Background([measured, rule] { return AdviseInterval(measured, rule); },
                   [this, key = job.key()](Result<IntervalAdvice> advice) {
                     Job* found = core_.FindJob(key);
                     if (found == nullptr) return;
                     JobTuning& told = found->tuning;
                     told.advising = false;
                     told.no_advice = advice.status();
                     if (!advice.ok()) return;
                     told.advice = *advice;
                     told.advised_ns = core_.clock().NowNs();
                     Tell(*found);
                     core_.events().job_changed(*found);
                   });
}

LevelCounts Tuning::LevelsInForce(const Job& job) {
  LevelCounts levels = ChangedLevels(ConfiguredLevels(job.hello.keys), job.tuning.levels);
  if (!job.CanProtect()) levels.node_every = 0;
  return levels;
}

void Tuning::NoteLevels(Job& job) {
  LevelCounts shown;
  for (const Session* session : core_.sessions().all()) {
    const bool counts = session->job == &job && session->hello.attempt == job.hello.attempt;
    if (!counts || session->ended || session->broken) continue;
    const LevelCounts levels = UnpackedLevels(session->box().levels_in_force.load(std::memory_order_relaxed));
    if (shown.none() || (session->hello.rank == 0 && !levels.none())) shown = levels;
  }
  JobTuning& tuning = job.tuning;
  if (shown.none() || shown == tuning.levels) return;
  tuning.levels = shown;
  tuning.versions_since_change = 0;
  tuning.had_highest_since_change = false;
  tuning.changed = true;
  Tell(job);
  core_.events().job_changed(job);
}

void Tuning::OnScheduled(const Version& version) {
  Job& job = *version.job;
  NoteLevels(job);
  const Level highest = LevelsInForce(job).store_every > 0 ? Level::kStore : Level::kNode;
  ++job.tuning.versions_since_change;
  if (version.scheduled() >= highest) job.tuning.had_highest_since_change = true;
  Tell(job);
}

LevelCounts Tuning::LevelsToTell(Job& job) {
  if (!job.hello.keys.schedule_adapt_levels) return {};
  NoteLevels(job);
  const JobTuning& tuning = job.tuning;
  // Also while the nodes do not know each other yet: they go on with what they had.
  const LevelCounts present = ChangedLevels(ConfiguredLevels(job.hello.keys), tuning.levels);
  const bool settled = tuning.versions_since_change >= kVersionsBetweenChanges && tuning.had_highest_since_change;
  if (!settled || !tuning.advice || tuning.advice->present != LevelsInForce(job)) return present;
  return ChangedLevels(present, WorthwhileLevels(*tuning.advice));
}

Duration Tuning::ToldInterval(const Job& job) {
  const auto& advice = job.tuning.advice;
  if (!job.hello.keys.schedule_adapt || !advice) return Duration::zero();
  // The best counts may be in force by now.
  const LevelCounts levels = LevelsInForce(job);
  const bool are_best = levels != advice->present && levels == WorthwhileLevels(*advice);
  return FromSeconds(are_best ? advice->best_interval_seconds : advice->interval_seconds);
}

void Tuning::Tell(Job& job) {
  const int64_t interval_ns = ToldInterval(job).count();
  const uint64_t levels = Packed(LevelsToTell(job));
  for (Session* session : core_.sessions().all()) {
    if (session->job != &job) continue;
    session->box().checkpoint_interval_ns.store(interval_ns, std::memory_order_relaxed);
    const uint64_t before = session->box().told_levels.exchange(levels, std::memory_order_relaxed);
    if (before != 0 && before != levels) os::KillPoint("agent-levels-changed");
  }
}

bool Tuning::Decides(const Job& job) const {
  const std::vector<Session*> sessions = core_.sessions().all();
  return std::any_of(sessions.begin(), sessions.end(), [&](const Session* session) {
    return session->job == &job && session->hello.attempt == job.hello.attempt && session->hello.rank == 0;
  });
}

void Tuning::Save(const JobTuning& tuning, Encoder& encoder) {
  for (const auto member : kObserved) kedge::Save(tuning.measured.*member, encoder);
  // What has not come yet is asked for again.
  encoder.Varint(tuning.history_known ? tuning.history_attempt : 0);
  encoder.F64(tuning.attempt_seconds);
  encoder.F64(tuning.history.seconds);
  encoder.Varint(tuning.history.failed.size());
  for (const uint32_t attempt : tuning.history.failed) encoder.Varint(attempt);
  for (const std::set<uint32_t>* restarts : {&tuning.node_restarts, &tuning.store_restarts}) {
    encoder.Varint(restarts->size());
    for (const uint32_t attempt : *restarts) encoder.Varint(attempt);
  }
  encoder.Varint(tuning.levels.node_every);
  encoder.Varint(tuning.levels.store_every);
}

void Tuning::Load(Decoder& decoder, JobTuning* tuning) {
  for (const auto member : kObserved) kedge::Load(decoder, &(tuning->measured.*member));
  tuning->history_attempt = decoder.Varint32();
  tuning->history_known = tuning->history_attempt > 0;
  tuning->attempt_seconds = decoder.F64();
  tuning->history.seconds = decoder.F64();
  decoder.Require(tuning->attempt_seconds >= 0 && tuning->attempt_seconds < 1e15 && tuning->history.seconds >= 0 &&
                      tuning->history.seconds < 1e15,
                  "a time is out of range");
  for (size_t left = decoder.Count(1); left > 0 && decoder.ok(); --left) tuning->history.failed.push_back(decoder.Varint32());
  for (std::set<uint32_t>* restarts : {&tuning->node_restarts, &tuning->store_restarts}) {
    for (size_t left = decoder.Count(1); left > 0 && decoder.ok(); --left) restarts->insert(decoder.Varint32());
  }
  tuning->levels.node_every = static_cast<uint32_t>(decoder.VarintAtMost(kLevelEveryMax));
  tuning->levels.store_every = static_cast<uint32_t>(decoder.VarintAtMost(kLevelEveryMax));
  tuning->changed = true;
}

}  // namespace kedge
