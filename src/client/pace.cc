// See pace.h.
#include "client/pace.h"

#include <chrono>

#include "base/clock.h"

namespace kedge::client {
namespace {

// With schedule.adapt and no schedule.interval, until a checkpoint was measured.
constexpr Duration kIntervalUnmeasured = std::chrono::seconds(60);

}  // namespace

Pace::Pace(Core* core, const Session* session) : core_(core), session_(session) {
  BeginInterval();
}

void Pace::BeginInterval() {
  began_ns_ = SystemClock().NowNs();
}

Duration Pace::interval() const {
  const Duration told = session_->told_interval();
  if (told > Duration::zero()) return told;
  const JobKeys& keys = core_->job.keys;
  if (keys.schedule_adapt && keys.schedule_interval == Duration::zero()) return kIntervalUnmeasured;
  return keys.schedule_interval;
}

Result<bool> Pace::IsDue(std::unique_lock<std::mutex>& lock) {
  const bool mine = SystemClock().NowNs() - began_ns_ >= interval().count();
  // Rank 0 may be late; what others want of this rank meanwhile is answered.
  lock.unlock();
  const Result<bool> due = core_->collective.BroadcastFromFirst(mine);
  lock.lock();
  if (due.ok() && !*due) ++core_->statistics.checkpoints_not_due;
  return due;
}

}  // namespace kedge::client
