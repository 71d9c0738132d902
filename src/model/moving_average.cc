#include "model/moving_average.h"

#include <algorithm>

namespace kedge {

// Added up anew each time: sums that are kept up to date by subtraction lose digits over the years of an agent.
MovingAverage::Flush MovingAverage::Sum() const {
  Flush sum;
  for (size_t i = 0; i < count_; ++i) {
    sum.bytes += flushes_[i].bytes;
    sum.seconds += flushes_[i].seconds;
  }
  return sum;
}

void MovingAverage::Add(uint64_t bytes, int64_t begin_ns, int64_t end_ns) {
  if (bytes == 0 || end_ns <= begin_ns) return;
  if (count_ > 1 && begin_ns - last_end_ns_ >= kPause.count()) {
    const Flush sum = Sum();
    // As large as the new one, so that both weigh alike.
    flushes_[0] = {static_cast<double>(bytes), static_cast<double>(bytes) * sum.seconds / sum.bytes};
    count_ = 1;
    next_ = 1;
  }
  flushes_[next_] = {static_cast<double>(bytes), static_cast<double>(end_ns - begin_ns) * 1e-9};
  next_ = (next_ + 1) % kWindow;
  count_ = std::min(count_ + 1, kWindow);
  last_end_ns_ = std::max(last_end_ns_, end_ns);
}

double MovingAverage::bytes_per_second() const {
  if (count_ == 0) return prior_bytes_per_second_;
  const Flush sum = Sum();
  return sum.bytes / sum.seconds;
}

}  // namespace kedge
