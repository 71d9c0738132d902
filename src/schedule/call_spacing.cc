#include "schedule/call_spacing.h"

#include <algorithm>

namespace kedge {
namespace {

// Of the time between two broadcasts; a cost that was measured while the machine was busy elsewhere is bounded.
constexpr int64_t kCostShare = 50;
constexpr Duration kCostlyPeriodMax = std::chrono::seconds(1);

}  // namespace

CallSpacing::CallSpacing(Duration broadcast_cost)
    : costly_period_ns_(std::min(broadcast_cost.count(), kCostlyPeriodMax.count() / kCostShare) * kCostShare) {}

uint64_t CallSpacing::Next(int64_t now_ns) {
  uint64_t ahead = 1;
  if (ahead_ > 0) {
    const int64_t call_ns = std::max<int64_t>((now_ns - last_ns_) / static_cast<int64_t>(ahead_), 1);
    const auto calls_in = [&](int64_t period_ns) { return static_cast<uint64_t>(period_ns / call_ns); };
    ahead = std::max(std::min(calls_in(kPeriod.count()), kAheadMax), calls_in(costly_period_ns_));
    ahead = std::clamp<uint64_t>(ahead, 1, 2 * ahead_);
  }
  last_ns_ = now_ns;
  return ahead_ = ahead;
}

}  // namespace kedge
