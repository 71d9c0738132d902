// See watcher.h.
#include "client/session/watcher.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "client/init/start.h"
#include "os/process/thread.h"

namespace kedge::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How late a recall is answered, or a loss seen, at most.
constexpr Duration kTick = milliseconds(50);
constexpr uint64_t kPopulateSliceBytes = 16 << 20;  // about 3 ms of page tables
constexpr Duration kRecordPause = seconds(2);
constexpr Duration kBackOffMin = milliseconds(100);
constexpr Duration kBackOffMax = seconds(10);

}  // namespace

Status Watcher::Start() {
  KEDGE_ASSIGN_OR_RETURN(thread_, os::StartThread("kedge-watch", [this] { Run(); }));
  return Status::Ok();
}

void Watcher::Stop() {
  {
    const std::lock_guard lock(stop_mutex_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watcher::Sleep(Duration duration) {
  std::unique_lock lock(stop_mutex_);
  stop_changed_.wait_for(lock, duration, [this] { return stop_; });
}

void Watcher::Run() {
  for (;;) {
    {
      const std::lock_guard lock(stop_mutex_);
      if (stop_) return;
    }
    Tick();
  }
}

void Watcher::Tick() {
  RenewLease();
  if (session_->WantsAgent()) BringAgent();
  bool in_call = true;
  std::optional<SlotRange> unused;
  if (std::unique_lock lock(core_->mutex, std::try_to_lock); lock) {
    in_call = false;
    session_->Pump();
    if (session_->current()) unused = session_->current()->slots->Unused();
    session_->ShowDeclared();
  }
  watched_ = session_->watched();
  if (watched_.connection && watched_.connection->IsGone()) {
    session_->ReportLoss(watched_);
    return;
  }
  // A call of the application, a restart above all, has better use for the processors.
  if (!in_call && unused && PopulateSlice(*unused)) return;
  if (watched_.connection) {
    (void)watched_.connection->WaitForPeerToClose(kTick);
  } else {
    Sleep(kTick);
  }
}

void Watcher::BringAgent() {
  const int64_t now = SystemClock().NowNs();
  if (now < next_start_ns_) return;
  auto connection = ConnectToAgent(*core_);
  if (connection.ok()) {
    session_->Offer(std::move(*connection));
  } else {
    LogDebug("client", "rank {}: no agent yet: {}", core_->rank(), connection.status().message());
  }
  // Also after an offer: an agent that refuses us is not asked again at once.
  back_off_ = std::clamp<Duration>(back_off_ * 2, kBackOffMin, kBackOffMax);
  if (connection.ok()) back_off_ = std::min<Duration>(back_off_, seconds(1));
  next_start_ns_ = SystemClock().NowNs() + back_off_.count();
}

void Watcher::RenewLease() {
  if (core_->rank() != 0 || core_->superseded.load()) return;
  const bool unrecorded = core_->attempt_unrecorded.load();
  const int64_t now = SystemClock().NowNs();
  const int64_t interval = unrecorded ? kRecordPause.count() : core_->job.lease.count() / 4;
  if (next_renewal_ns_ == 0) next_renewal_ns_ = now + interval;
  if (now < next_renewal_ns_) return;
  next_renewal_ns_ = now + interval;
  if (unrecorded) return RecordAttempt();
  const Status status = core_->Heard(RenewAttempt(*core_->catalog, core_->job.job, core_->attempt));
  if (status.ok()) return;
  LogError("client", "rank {}: the lease of job '{}' could not be renewed: {}", core_->rank(), core_->job.job, status.message());
}

void Watcher::RecordAttempt() {
  const int64_t begin_ns = SystemClock().NowNs();
  const bool is_there = core_->catalog->Confirm().ok();
  if (!is_there) lease_watch_.BeginAgain();
  const Status status = is_there ? RegisterAttempt(*core_->catalog, core_->attempt_record, OwnRequest(*core_), &lease_watch_)
                                 : Status(Code::kUnavailable, "it is not reached");
  // A store that takes its time to fail has most of this thread's otherwise.
  next_renewal_ns_ = std::max(next_renewal_ns_, SystemClock().NowNs() + 10 * (SystemClock().NowNs() - begin_ns));
  if (status.ok()) {
    core_->attempt_unrecorded.store(false);
    LogInfo("client", "job '{}': the store is there again, and knows of attempt {}", core_->job.job, core_->attempt);
  } else if (status.code() == Code::kBusy) {
    LogError("client", "rank {}: nothing of this run gets to the store any more: {}", core_->rank(), status.message());
    core_->superseded.store(true);
  } else {
    LogDebug("client", "rank {}: the attempt is not noted in the store yet: {}", core_->rank(), status.message());
  }
}

bool Watcher::PopulateSlice(const SlotRange& range) {
  if (!watched_.session) return false;
  const auto& tiers = watched_.session->attachment.tiers;
  if (range.tier >= tiers.size() || tiers[range.tier]->info().kind != TierKind::kMemory) return false;
  SlotRange& done = watched_.session->populated;
  if (done.tier != range.tier || done.slot != range.slot || done.slot_generation != range.slot_generation) done = {};
  const uint64_t begin = std::max(done.bytes, range.offset);
  const uint64_t end = range.offset + range.bytes;
  if (begin >= end) return false;
  const uint64_t bytes = std::min(kPopulateSliceBytes, end - begin);
  // What cannot be populated is faulted in on use: slower, never wrong.
  (void)tiers[range.tier]->Populate(range.slot, begin, bytes);
  done = range;
  done.bytes = begin + bytes;
  return true;
}

}  // namespace kedge::client
