// AvgFlushBW of [VeloC] algorithms 2 and 3: what one flush achieves, as a moving average over a fixed window of recent ones.
//
// The average is the bytes of the flushes in the window over the seconds that they took, so that a stall weighs as long as it
// lasted. Concurrent flushes are not summed: this is what one of them gets.
// - Before the first has ended, the average is the prior that it was made with: what an earlier agent measured; 0 without one.
// - Time without flushes adds nothing. After a pause of kPause the window is folded into one flush of its average: it stands as
//   the best guess, and the first flush that ends then weighs as much as all that was before.
//
// Threads: belongs to one thread; the agent publishes bytes_per_second() in the control block for others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/duration.h"

namespace kedge {

class MovingAverage {
 public:
  static constexpr size_t kWindow = 32;  // flushes
  static constexpr Duration kPause = std::chrono::seconds(60);

  explicit MovingAverage(double prior_bytes_per_second = 0) : prior_bytes_per_second_(prior_bytes_per_second) {}

  // A flush that has ended well. One that moved nothing or took no time teaches nothing and is passed over.
  void Add(uint64_t bytes, int64_t begin_ns, int64_t end_ns);
  double bytes_per_second() const;
  // Flushes that the window holds.
  size_t count() const { return count_; }

 private:
  struct Flush {
    double bytes = 0;
    double seconds = 0;
  };
  Flush Sum() const;

  const double prior_bytes_per_second_;
  std::array<Flush, kWindow> flushes_{};
  size_t next_ = 0;
  size_t count_ = 0;
  int64_t last_end_ns_ = 0;
};

}  // namespace kedge
