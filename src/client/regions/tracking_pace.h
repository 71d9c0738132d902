// Whether the application is slower while its writes are tracked (capture.track = auto), by its own steps: pure arithmetic.
//
// A step is what lies between the end of one image and the begin of the next. Some steps are taken untracked and as many tracked;
// where the median of these is longer by more than the target allows, and by more than untracked steps differ among themselves,
// tracking goes off. It is measured again after a pause that doubles each time. Where it is no slower, it is trusted for so many
// images, which double too: an application that changes its ways is found out.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace kedge::client {

class TrackingPace {
 public:
  // Whether the step that comes is to be tracked.
  bool Tracks() const { return phase_ != Phase::kPlain; }
  // A step of `seconds` has ended, which was as Tracks() said.
  void Observe(double seconds) {
    steps_[taken_++ % kSteps] = seconds;
    if (--left_ > 0) return;
    switch (phase_) {
      case Phase::kPlain:
        plain_ = SpreadOf(steps_);
        Begin(Phase::kTried, kSteps);
        break;
      case Phase::kTried:
        if (IsSlower()) {
          Begin(Phase::kPlain, next_pause_);
          next_pause_ = std::min(2 * next_pause_, kPauseMax);
          next_trust_ = kTrustMin;
        } else {
          Begin(Phase::kTrusted, next_trust_);
          next_trust_ = std::min(2 * next_trust_, kTrustMax);
          next_pause_ = kPauseMin;
        }
        break;
      case Phase::kTrusted: Begin(Phase::kPlain, kSteps); break;
    }
  }

  static constexpr uint32_t kSteps = 8;  // of each kind
  static constexpr uint32_t kPauseMin = 32;
  static constexpr uint32_t kPauseMax = 1024;
  static constexpr uint32_t kTrustMin = 64;
  static constexpr uint32_t kTrustMax = 1024;
  static constexpr double kSlowerMax = 0.03;

 private:
  enum class Phase : uint8_t { kPlain, kTried, kTrusted };
  using Steps = std::array<double, kSteps>;
  struct Spread {
    double median = 0;
    double half = 0;  // between the quarters
  };

  static Spread SpreadOf(Steps steps) {
    std::sort(steps.begin(), steps.end());
    return {(steps[kSteps / 2 - 1] + steps[kSteps / 2]) / 2, (steps[kSteps * 3 / 4] - steps[kSteps / 4]) / 2};
  }
  bool IsSlower() const {
    const double more = SpreadOf(steps_).median - plain_.median;
    return more > std::max(kSlowerMax * plain_.median, plain_.half);
  }
  void Begin(Phase phase, uint32_t images) {
    phase_ = phase;
    left_ = images;
  }

  Phase phase_ = Phase::kPlain;
  uint32_t left_ = kSteps;  // images
  uint32_t next_pause_ = kPauseMin;
  uint32_t next_trust_ = kTrustMin;
  size_t taken_ = 0;
  Steps steps_{};
  Spread plain_;
};

}  // namespace kedge::client
