// See pace.h.
#include "client/checkpoint/pace.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "schedule/schedule.h"

namespace kedge::client {
namespace {

// The shortest of these is what a broadcast takes; the first may have waited for somebody.
constexpr int kTimedBroadcasts = 3;

}  // namespace

Status Pace::Start() {
  core_->levels = ConfiguredLevels(core_->job.keys);
  // As a "due" says it that is always so.
  const Told mine{interval() == Duration::zero(), false, 0, ChangedLevels(core_->levels, session_->told_levels())};
  KEDGE_ASSIGN_OR_RETURN(const auto words, core_->collective.BroadcastFromFirst(mine.Words()));
  const Told told = Told::Of(words);
  always_due_ = told.due;
  GoBy(told.levels);
  KEDGE_ASSIGN_OR_RETURN(const Duration cost, BroadcastCost());
  spacing_ = CallSpacing(cost);
  // What init took is no computation.
  BeginInterval();
  return Status::Ok();
}

// That of most ranks: the first one has sent it long before the others have it, and one may have had bad luck.
Result<Duration> Pace::BroadcastCost() const {
  int64_t mine = INT64_MAX;
  for (int i = 0; i < kTimedBroadcasts; ++i) {
    const int64_t begin_ns = SystemClock().NowNs();
    KEDGE_RETURN_IF_ERROR(core_->collective.BroadcastFromFirst(Collective::Words{}).status());
    mine = std::min(mine, SystemClock().NowNs() - begin_ns);
  }
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> all, core_->collective.AllGather(std::to_string(mine)));
  std::vector<int64_t> costs;
  for (const std::string& cost : all) costs.push_back(std::strtoll(cost.c_str(), nullptr, 10));
  std::sort(costs.begin(), costs.end());
  return Duration(costs[costs.size() / 2]);
}

void Pace::BeginInterval() {
  due_ = false;
  began_ns_ = SystemClock().NowNs();
}

void Pace::OnCheckpointEnd() {
  BeginInterval();
  checkpoint_ended_ns_ = began_ns_;
}

Duration Pace::interval() const {
  return CheckpointInterval(core_->job.keys, session_->told_interval());
}

void Pace::GoBy(const LevelCounts& told) {
  core_->levels = ChangedLevels(core_->levels, told);
  session_->ShowLevels();
}

Pace::Told Pace::Decide() {
  const int64_t now_ns = SystemClock().NowNs();
  const Halt halt = session_->told_halt();
  Told told;
  told.due = !always_due_ && (due_ || now_ns - began_ns_ >= interval().count() || halt.WantsCheckpoint(checkpoint_ended_ns_));
  told.exit = halt.WantsExit(checkpoint_ended_ns_);
  if (told.due) told.levels = session_->told_levels();
  // One rank alone reaches nobody else, and so looks at each call.
  told.ahead = core_->ranks() == 1 ? 1 : spacing_.Next(now_ns);
  return told;
}

Status Pace::Ask(std::unique_lock<std::mutex>& lock) {
  if (ahead_ > 1) {
    --ahead_;
    return Status::Ok();
  }
  const Told mine = core_->rank() == 0 ? Decide() : Told();
  if (core_->ranks() == 1) return Hear(mine);
  KEDGE_RETURN_IF_ERROR(broken_);
  // Rank 0 may be late; what others want of this rank meanwhile is answered.
  lock.unlock();
  const auto words = core_->collective.BroadcastFromFirst(mine.Words());
  lock.lock();
  return broken_ = words.ok() ? Hear(Told::Of(*words)) : words.status();
}

Status Pace::Hear(const Told& told) {
  if (told.ahead == 0) return Status(Code::kUnavailable, "the bootstrap's broadcast did not bring what rank 0 has sent");
  ahead_ = told.ahead;
  due_ = told.due;
  if (due_) GoBy(told.levels);
  if (told.exit) exit_ = true, session_->ShowExit();
  return Status::Ok();
}

Result<bool> Pace::IsDue(std::unique_lock<std::mutex>& lock) {
  if (always_due_) {
    // Once may be meant.
    if (core_->rank() == 0 && always_due_calls_ < 2 && ++always_due_calls_ == 2) {
      LogWarning("client",
                 "a checkpoint is due at each call, since schedule.interval is not set: set it (for example "
                 "KEDGE_SCHEDULE_INTERVAL=60s), or schedule.adapt = true");
    }
    return true;
  }
  KEDGE_RETURN_IF_ERROR(Ask(lock));
  if (!due_) ++core_->statistics.checkpoints_not_due;
  return due_;
}

Result<bool> Pace::ShouldExit(std::unique_lock<std::mutex>& lock) {
  if (!exit_) KEDGE_RETURN_IF_ERROR(Ask(lock));
  return exit_;
}

}  // namespace kedge::client
