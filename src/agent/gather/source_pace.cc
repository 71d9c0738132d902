#include "agent/gather/source_pace.h"

#include <algorithm>

namespace kedge {
namespace {

// Fewer say nothing, for steps are cut where reading begins and ends, and that is so many of them; but where they stop altogether
// nobody waits for more.
constexpr double kStepsMin = 64, kStepsCut = 1.5;
constexpr double kStopped = 4;  // times as long as they would take
// Of steps alone: what the application did long ago counts half.
constexpr double kStepsKept = 1024;
// In one decision. It rises by less than it falls.
constexpr double kFallMax = 0.5, kRise = 1.25;
// Whoever reads more slowly is taken for stuck (shipper.cc).
constexpr uint64_t kRateMin = 4 << 20;
}  // namespace

void SourcePace::Add(uint64_t steps, Duration time, bool is_read) {
  Pace& pace = is_read ? beside_ : alone_;
  pace.steps += static_cast<double>(steps);
  pace.seconds += ToSeconds(time);
  if (is_read && rate_ == 0) free_seconds_ += ToSeconds(time);
  if (alone_.steps > kStepsKept) alone_ = {alone_.steps / 2, alone_.seconds / 2};
  if (alone_.steps < kStepsMin) return;
  const bool has_stopped = beside_.seconds > kStopped * kStepsMin * alone_.seconds / alone_.steps;
  if (beside_.steps >= kStepsMin || has_stopped) Decide();
}

void SourcePace::Decide() {
  const double steps = std::max(beside_.steps, 1.0);
  slowdown_ = std::max(beside_.seconds / steps / (alone_.seconds / alone_.steps) - 1, 0.0);
  beside_ = {};
  const double freely = free_seconds_ > 0 ? free_bytes_ / free_seconds_ : 0;
  if (allowed_ <= 0 || freely <= 0) return;
  const double now = rate_ > 0 ? static_cast<double>(rate_) : freely;
  if (*slowdown_ - kStepsCut / steps > allowed_) {
    rate_ = std::max(static_cast<uint64_t>(now * std::max(allowed_ / *slowdown_, kFallMax)), kRateMin);
  } else if (*slowdown_ <= allowed_ / 2 && rate_ > 0) {
    rate_ = now * kRise < freely ? static_cast<uint64_t>(now * kRise) : 0;
    if (rate_ == 0) free_bytes_ = free_seconds_ = 0;
  }
}

}  // namespace kedge
