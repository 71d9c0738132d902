// See watcher.h.
#include "client/watcher.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/log.h"
#include "client/start.h"
#include "os/private_files.h"
#include "os/thread.h"

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
  }
  watched_ = session_->watched();
  if (watched_.connection && watched_.connection->WaitForPeerToClose(Duration{})) {
    session_->ReportLoss(watched_);
    return;
  }
  // A call of the application, a restart above all, has better use for the processors.
  if (!in_call && PopulateSlice(unused)) return;
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

bool Watcher::PopulateSlot(const SlotRange& range) {
  const auto& tiers = watched_.session->attachment.tiers;
  if (range.tier >= tiers.size() || range.slot >= tiers[range.tier]->info().slots) return false;
  Tier& tier = *tiers[range.tier];
  if (tier.info().kind != TierKind::kMemory) return false;
  auto& populated = watched_.session->populated;
  populated.resize(tiers.size());
  populated[range.tier].resize(tier.info().slots, 0);
  uint64_t& done = populated[range.tier][range.slot];
  if (done >= tier.info().slot_bytes) return false;
  const uint64_t bytes = std::min(kPopulateSliceBytes, tier.info().slot_bytes - done);
  // What cannot be populated is faulted in on use: slower, never wrong.
  (void)tier.Populate(range.slot, done, bytes);
  done += bytes;
  watched_.session->populated_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

bool Watcher::PopulateSlice(const std::optional<SlotRange>& first) {
  if (!watched_.session) return false;
  if (first && PopulateSlot(*first)) return true;
  const auto& tiers = watched_.session->attachment.tiers;
  for (uint32_t index = 0; index < tiers.size(); ++index) {
    const TierInfo& info = tiers[index]->info();
    if (info.kind != TierKind::kMemory) continue;
    // The space is reserved by the agent; until all of it is, populating would take it out of turn.
    auto file = os::PrivateFileSystem().Stat(info.path);
    if (!file.ok() || file->allocated_bytes < info.slot_bytes * info.slots) continue;
    for (uint32_t slot = 0; slot < info.slots; ++slot) {
      SlotRange range{};
      range.tier = index;
      range.slot = slot;
      if (PopulateSlot(range)) return true;
    }
  }
  return false;
}

}  // namespace kedge::client
