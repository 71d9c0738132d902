// See levels.h.
#include "client/checkpoint/levels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "store/attempts.h"
#include "store/publish.h"
#include "store/retention.h"
#include "store/versions.h"

namespace kedge::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// One question to the agent lasts no longer, so that the lock is free in between.
constexpr Duration kSlice = seconds(1);
constexpr Duration kAnswerTimeout = seconds(10);
constexpr Duration kPollMin = milliseconds(5);
constexpr Duration kPollMax = milliseconds(200);

// Who has not arrived when the time is over: ranks; else what the agent says, which knows other nodes.
std::string Missing(const LevelReply& reply) {
  if (!reply.missing_ranks.empty()) return fmt::format("; no image yet from ranks {}", fmt::join(reply.missing_ranks, ", "));
  return reply.failure.ok() ? "" : "; " + reply.failure.message();
}

}  // namespace

Result<Levels::Subject> Levels::Find(const std::string& name, int64_t version) {
  session_->Pump();
  KEDGE_RETURN_IF_ERROR(core_->CheckNotSuperseded());
  TakenVersion* taken = name.empty() ? ledger_->Newest() : ledger_->Find(name, version);
  if (taken != nullptr) {
    if (taken->started) return Subject{taken->generation, false, true, Level::kNone, Status::Ok()};
    if (!taken->captured && !taken->flush_failure.ok()) return taken->flush_failure;
    if (!taken->captured) {
      return Status(Code::kFailedPrecondition,
                    fmt::format("'{}' version {} was not captured", taken->generation.name, taken->generation.version));
    }
    return Subject{taken->generation, !taken->in_store, false, taken->told, taken->flush_failure};
  }
  if (name.empty()) return Status(Code::kNotFound, "this context has taken no checkpoint yet");
  if (const Generation* restored = ledger_->FindRestored(name, version); restored != nullptr && core_->protects) {
    return Subject{*restored, true, false, Level::kNone, Status::Ok()};
  }
  auto versions = ListVersions(*core_->catalog, core_->job.job, name);
  if (!versions.ok() && versions.status().code() != Code::kNotFound) return versions.status();
  const char* there = "neither a checkpoint of this context nor in the store";
  if (versions.ok()) {
    for (const VersionInfo& info : *versions) {
      if (info.generation.version != version) continue;
      if (!info.abandoned) return Subject{info.generation, false, false, Level::kNone, Status::Ok()};
      there = "abandoned: the job went on from an older one, and this context has not taken it again";
    }
  }
  return Status(Code::kNotFound, fmt::format("'{}' version {} is {}", name, version, there));
}

LevelReply Levels::AskStore(const Generation& generation) const {
  LevelReply reply;
  reply.scheduled = Level::kStore;
  auto info = InspectGeneration(*core_->catalog, generation);
  if (!info.ok()) {
    // Not there yet, or removed by those who have taken over: only the former is a matter of time.
    const bool is_absent = info.status().code() == Code::kNotFound;
    reply.failure = is_absent ? CheckNotTakenOver(*core_->catalog, generation.job, core_->attempt) : info.status();
    return reply;
  }
  if (!info->complete && info->finishable) {
    const auto outcome = FinishVersion(*core_->catalog, generation);
    info->complete = outcome.ok() && outcome->complete;
    const auto drained = core_->catalog->store().IsDrained(keys::VersionKey(generation));
    info->drained = drained.ok() && *drained;
  }
  // What is taken after a newer attempt has begun is not to be counted on.
  reply.failure = CheckNotTakenOver(*core_->catalog, generation.job, core_->attempt);
  if (!reply.failure.ok()) return reply;
  if (info->complete) reply.level = info->drained ? Level::kStore : Level::kBuffer;
  if (!info->complete) reply.failure = FindDisagreement(*core_->catalog, generation);
  reply.missing_ranks = info->missing_ranks;
  return reply;
}

Status Levels::Verdict(const LevelReply& reply, Level wanted, bool* reached) {
  const Level goal = wanted == Level::kLast ? reply.scheduled : wanted;
  *reached = reply.level >= goal && reply.scheduled != Level::kNone;
  if (*reached || reply.failure.ok() || reply.failure.code() == Code::kTimeout) return Status::Ok();
  return reply.failure;
}

// Whether a version whose flush has failed got there since: somebody has asked the agent to try again (`kedge wait`).
bool Levels::WasMadeGood(const Generation& generation) const {
  const auto connection = session_->connection();
  if (!connection) return false;
  const auto reply = connection->Call<LevelReply>(TestRequest{generation}, kAnswerTimeout);
  bool reached = false;
  return reply.ok() && reply->failure.ok() && Verdict(*reply, Level::kLast, &reached).ok() && reached;
}

Status Levels::Wait(std::unique_lock<std::mutex>& lock, const std::string& name, int64_t version, Level level, Duration timeout) {
  const Deadline deadline(SystemClock(), timeout);
  KEDGE_ASSIGN_OR_RETURN(Subject subject, Find(name, version));
  if (subject.started) {
    KEDGE_RETURN_IF_ERROR(core_->AwaitCapture(lock, deadline));
    KEDGE_ASSIGN_OR_RETURN(subject, Find(subject.generation.name, subject.generation.version));
  }
  Duration pause = kPollMin;
  for (;;) {
    KEDGE_RETURN_IF_ERROR(core_->CheckNotSuperseded());
    if (!subject.failure.ok() && !(subject.at_agent && WasMadeGood(subject.generation))) return subject.failure;
    const auto connection = subject.at_agent ? session_->connection() : nullptr;
    const Duration slice = std::clamp<Duration>(deadline.Remaining(), Duration{}, kSlice);
    lock.unlock();
    Result<LevelReply> reply = Status(Code::kUnavailable, "no agent");
    if (connection) reply = connection->Call<LevelReply>(WaitRequest{subject.generation, level, slice}, slice + kAnswerTimeout);
    const bool by_agent = reply.ok();
    if (!by_agent) reply = AskStore(subject.generation);
    bool reached = false;
    Status status = Verdict(*reply, level, &reached);
    if (!reached && status.ok() && !by_agent && !deadline.Passed()) {
      std::this_thread::sleep_for(std::min(pause, deadline.Remaining()));
      pause = std::min(pause * 2, kPollMax);
    }
    lock.lock();
    if (reached && reply->level >= Level::kBuffer) {
      TakenVersion* const taken = ledger_->Find(subject.generation.name, subject.generation.version);
      if (taken != nullptr && taken->generation == subject.generation) taken->told = std::max(taken->told, reply->level);
    }
    if (reached || !status.ok()) return core_->Heard(status);
    if (deadline.Passed()) {
      return Status(Code::kTimeout, fmt::format("'{}' version {} has not reached level {} within {}: it is at {}{}",
                                                subject.generation.name, subject.generation.version, LevelName(level),
                                                FormatDuration(timeout), LevelName(reply->level), Missing(*reply)));
    }
    auto again = Find(subject.generation.name, subject.generation.version);
    if (again.ok() && again->generation == subject.generation) subject = std::move(*again);
  }
}

Result<Level> Levels::Test(const std::string& name, int64_t version) {
  KEDGE_ASSIGN_OR_RETURN(const Subject subject, Find(name, version));
  KEDGE_RETURN_IF_ERROR(core_->CheckNotSuperseded());
  if (subject.started) return Level::kNone;
  if (!subject.failure.ok() && !(subject.at_agent && WasMadeGood(subject.generation))) return subject.failure;
  LevelReply reply;
  const auto connection = subject.at_agent ? session_->connection() : nullptr;
  Result<LevelReply> answer = Status(Code::kUnavailable, "no agent");
  if (connection) answer = connection->Call<LevelReply>(TestRequest{subject.generation}, kAnswerTimeout);
  reply = answer.ok() ? std::move(*answer) : AskStore(subject.generation);
  // What was told once stays true; an agent that has come since may have to look first.
  if (answer.ok() && reply.level < subject.told) {
    LevelReply stored = AskStore(subject.generation);
    if (stored.level > reply.level) reply = std::move(stored);
  }
  if (!reply.failure.ok() && reply.failure.code() != Code::kTimeout) return core_->Heard(reply.failure);
  return reply.level;
}

Status Levels::Pending() {
  session_->Pump();
  const Status busy(Code::kBusy, "a flush of this rank runs or waits");
  if (core_->capturing) return busy;
  if (session_->HadPending()) {
    const auto connection = session_->connection();
    if (!connection) return busy;
    const auto reply = connection->Call<PendingReply>(
        PendingRequest{core_->catalog->id(), core_->job.job, core_->attempt, core_->rank()}, kAnswerTimeout);
    if (!reply.ok() || reply->images > 0) return busy;
    session_->ForgetFormerPending();
  }
  const TakenVersion* newest = ledger_->Newest();
  if (session_->attached() || newest == nullptr || newest->in_store) return session_->HasPending() ? busy : Status::Ok();
  // The agent that had it is gone, and no other is there: only the store tells.
  if (!newest->flush_failure.ok()) return Status::Ok();
  return AskStore(newest->generation).level >= Level::kBuffer ? Status::Ok() : busy;
}

Status Levels::Cleanup(const std::string& name) {
  session_->Pump();
  const auto connection = session_->connection();
  if (!connection) {
    // Without an agent nothing of this context is on the node, unless the agent was lost: then its successor decides.
    if (!session_->WantsAgent()) return Status::Ok();
    return Status(Code::kUnavailable, "the agent that holds the local copies cannot be reached");
  }
  CleanupRequest request;
  request.store_id = core_->catalog->id();
  request.job = core_->job.job;
  request.name = name;
  request.rank = core_->rank();
  return connection->Call<CleanupReply>(request, kAnswerTimeout).status();
}

Status Levels::Pin(const std::string& name, int64_t version, bool pinned) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> complete,
                         CompleteVersions(*core_->catalog, core_->job.job, name, version));
  if (complete.empty() || complete.front().generation.version != version) {
    return Status(Code::kFailedPrecondition,
                  fmt::format("'{}' version {} is not complete in the store, so it cannot be pinned", name, version));
  }
  const Generation& generation = complete.front().generation;
  if (pinned) return PinVersion(*core_->catalog, generation);
  KEDGE_RETURN_IF_ERROR(UnpinVersion(*core_->catalog, generation));
  // The version may be one too many now.
  if (const auto connection = session_->connection()) {
    return connection->Call<DoneReply>(RetainRequest{generation.store_id, generation.job, name}, kAnswerTimeout).status();
  }
  RetentionOptions options;
  options.keep = core_->job.keys.keep_versions;
  return ApplyRetention(*core_->catalog, generation.job, name, options, nullptr);
}

Result<DrainReply> Levels::Drain(Duration timeout) {
  session_->Pump();
  const auto connection = session_->connection();
  if (!connection) {
    if (Pending().ok()) return DrainReply{};
    return Status(Code::kUnavailable,
                  "no agent is left to carry on what this rank has handed over; the next one on this node will");
  }
  DrainRequest request;
  request.store_id = core_->catalog->id();
  request.job = core_->job.job;
  request.timeout = timeout;
  auto reply = connection->Drain(request, nullptr);
  session_->Pump();
  return reply;
}

Status Levels::WhetherLost() const {
  const TakenVersion* newest = ledger_->Newest();
  const auto connection = session_->connection();
  if (!session_->WasReplaced() || !connection || newest == nullptr) return Status::Ok();
  if (newest->in_store || !newest->flush_failure.ok() || ledger_->IsLeftBehind(*newest)) return Status::Ok();
  const Generation& generation = newest->generation;
  const auto reply = connection->Call<LevelReply>(WaitRequest{generation, Level::kLast, kSlice}, kSlice + kAnswerTimeout);
  if (!reply.ok() || reply->failure.code() != Code::kTimeout) return Status::Ok();
  const auto& missing = reply->missing_ranks;
  const bool is_known = reply->scheduled != Level::kNone;
  if (is_known && std::find(missing.begin(), missing.end(), core_->rank()) == missing.end()) return Status::Ok();
  return Status(Code::kLost,
                fmt::format("rank {}'s image of '{}' version {} was lost with its agent and the memory of that: the next "
                            "agent does not have it, and the store does not",
                            core_->rank(), generation.name, generation.version));
}

}  // namespace kedge::client
