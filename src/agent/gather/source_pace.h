// How fast the images of a node may be read by others, so that its application is not slowed down by more than it allows
// (staging.alpha), after alpha(r) of [Sato 3.3]: pure arithmetic.
//
// The application tells its steps (kedge_checkpoint_due). Steps that passed while images were read are compared with those of the
// other times. After some steps of the first kind the rate falls in proportion where they took too long, and rises again by and
// by where they did not. Without steps of both kinds nothing is known, and nothing is limited.
#pragma once

#include <cstdint>
#include <optional>

#include "base/duration.h"

namespace kedge {

class SourcePace {
 public:
  // `allowed`: what a step may take longer, of its own time (0.05: a twentieth); 0: any.
  explicit SourcePace(double allowed) : allowed_(allowed) {}

  // So many steps of all ranks have passed in the time, in which images were read, or not.
  void Add(uint64_t steps, Duration time, bool is_read);
  // An image of so many bytes has been read.
  void AddRead(uint64_t bytes) { free_bytes_ += rate_ == 0 ? static_cast<double>(bytes) : 0; }
  // Bytes per second at most; 0: no limit.
  uint64_t rate() const { return rate_; }
  // By how much a step takes longer while images are read, as far as is known.
  std::optional<double> slowdown() const { return slowdown_; }

 private:
  struct Pace {
    double steps = 0;
    double seconds = 0;
  };
  void Decide();

  const double allowed_;
  Pace alone_, beside_;
  double free_bytes_ = 0, free_seconds_ = 0;  // that were read without a limit, and how long that took
  uint64_t rate_ = 0;
  std::optional<double> slowdown_;
};

}  // namespace kedge
