// See change_tracker.h.
#include "client/regions/change_tracker.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace kedge::client {
namespace {

// Of less memory neither the copy nor what it saves is felt.
constexpr size_t kTrackedBytesMin = size_t{2} << 20;
// Images that a region may be absent from.
constexpr uint64_t kImagesWithout = 8;

uint64_t BytesOf(const std::vector<ChangedRange>& ranges) {
  uint64_t bytes = 0;
  for (const ChangedRange& range : ranges) bytes += range.bytes;
  return bytes;
}

// Adds `written`, which is in order as `changed` is.
void Merge(const std::vector<os::MemoryRange>& written, const std::byte* begin, std::vector<ChangedRange>* changed) {
  std::vector<ChangedRange> all = std::move(*changed);
  const size_t before = all.size();
  for (const os::MemoryRange& range : written) all.push_back({static_cast<uint64_t>(range.begin - begin), range.bytes});
  const auto earlier = [](const ChangedRange& a, const ChangedRange& b) { return a.offset < b.offset; };
  std::inplace_merge(all.begin(), all.begin() + static_cast<ptrdiff_t>(before), all.end(), earlier);
  changed->clear();
  for (const ChangedRange& range : all) {
    if (!changed->empty() && range.offset <= changed->back().offset + changed->back().bytes) {
      const uint64_t end = std::max(changed->back().offset + changed->back().bytes, range.offset + range.bytes);
      changed->back().bytes = end - changed->back().offset;
    } else {
      changed->push_back(range);
    }
  }
}

}  // namespace

bool ChangeTracker::Available() {
  if (tracking_ != Feature::kOff && !std::exchange(tried_, true)) {
    auto created = os::WriteTracking::Create();
    if (created.ok()) {
      writes_.emplace(std::move(*created));
    } else {
      LogAt(tracking_ == Feature::kOn ? LogLevel::kWarning : LogLevel::kInfo, "client",
            "capture.track: {}; regions are taken whole", created.status().message());
    }
  }
  return writes_.has_value();
}

void ChangeTracker::ObserveStep() {
  const int64_t ended_ns = std::exchange(ended_ns_, 0);
  if (tracking_ != Feature::kAuto || ended_ns == 0) return;
  const bool tracked = pace_.Tracks();
  pace_.Observe(static_cast<double>(SystemClock().NowNs() - ended_ns) * 1e-9);
  if (pace_.Tracks() || !tracked) return;
  for (auto& [address, region] : regions_) Stop(address, &region);
}

bool ChangeTracker::Pauses(Tracked* tracked) {
  return tracking_ == Feature::kAuto && (!pace_.Tracks() || tracked->worth.Pauses());
}

void ChangeTracker::Begin() {
  ++images_;
  ObserveStep();
  std::erase_if(regions_, [this](const auto& entry) {
    const bool is_absent = entry.second.taken + kImagesWithout < images_;
    if (is_absent) writes_->Untrack(entry.first);
    return is_absent;
  });
}

void ChangeTracker::Stop(const void* address, Tracked* tracked) {
  writes_->Untrack(address);
  tracked->is_tracked = false;
  tracked->since = {};
  tracked->changed.clear();
}

void ChangeTracker::Refuse(const DeclaredRegion& region, Tracked* tracked) {
  Stop(region.address, tracked);
  tracked->is_refused = true;
}

bool ChangeTracker::Track(const DeclaredRegion& region, Tracked* tracked) {
  const Status status = writes_->Track(region.address, tracked->bytes);
  tracked->is_tracked = status.ok();
  if (status.ok()) return true;
  LogInfo("client", "region {} is taken whole at each checkpoint: {}", region.description.id, status.message());
  Refuse(region, tracked);
  return false;
}

const std::vector<ChangedRange>* ChangeTracker::Take(const DeclaredRegion& region, const ImageMark& base) {
  const size_t bytes = region.description.bytes;
  if (!Available() || region.device_written || region.moves() || bytes < kTrackedBytesMin) return nullptr;
  Tracked& tracked = regions_[region.address];
  if (tracked.bytes != bytes) {
    writes_->Untrack(region.address);
    tracked = Tracked{};
    tracked.bytes = bytes;
  }
  tracked.taken = images_;
  if (tracked.id != region.description.id) tracked.since = {};
  tracked.id = region.description.id;
  if (tracked.is_refused || Pauses(&tracked)) return nullptr;
  if (!tracked.is_tracked && !Track(region, &tracked)) return nullptr;
  std::vector<os::MemoryRange> written;
  const int64_t begin_ns = SystemClock().NowNs();
  const Status status = writes_->TakeWritten(region.address, bytes, &written);
  const double scan_seconds = static_cast<double>(SystemClock().NowNs() - begin_ns) * 1e-9;
  if (!status.ok()) {
    // Other memory lies there by now, perhaps: it begins anew with the next image.
    LogInfo("client", "region {} is taken whole: {}", region.description.id, status.message());
    Stop(region.address, &tracked);
    return nullptr;
  }
  Merge(written, static_cast<const std::byte*>(region.address), &tracked.changed);
  if (base.serial == 0 || tracked.since != base) return nullptr;
  if (tracking_ == Feature::kAuto && !tracked.worth.Observe(bytes, BytesOf(tracked.changed), scan_seconds)) {
    LogInfo("client", "region {}: so much of it changes that it is not tracked for a while", region.description.id);
    writes_->Untrack(region.address);
    tracked.is_tracked = false;
    tracked.since = {};
  }
  return &tracked.changed;
}

void ChangeTracker::Distrust(const DeclaredRegion& region) {
  LogWarning("client",
             "region {}: its memory has changed although nothing wrote there that the kernel sees, a device perhaps: it is not "
             "tracked any more, and is taken whole. Declare it as device_written",
             region.description.id);
  const auto found = regions_.find(region.address);
  if (found != regions_.end()) Refuse(region, &found->second);
}

void ChangeTracker::Captured(const ImageMark& image) {
  ended_ns_ = SystemClock().NowNs();
  for (auto& [address, tracked] : regions_) {
    if (tracked.taken != images_ || !tracked.is_tracked) continue;
    tracked.since = image;
    tracked.changed.clear();
  }
}

}  // namespace kedge::client
