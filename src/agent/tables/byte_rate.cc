#include "agent/tables/byte_rate.h"

#include <algorithm>

namespace kedge {

void ByteRate::Set(uint64_t bytes_per_second) {
  const std::lock_guard lock(mutex_);
  if (bytes_per_second_.exchange(bytes_per_second) != 0) return;
  tokens_ = 0;
  filled_ns_ = clock_.NowNs();
}

Duration ByteRate::Pause() {
  if (bytes_per_second_ == 0) return Duration::zero();
  const std::lock_guard lock(mutex_);
  const auto rate = static_cast<double>(bytes_per_second_);
  if (rate == 0) return Duration::zero();
  const int64_t now_ns = clock_.NowNs();
  // At most a tenth of a second's worth is saved up, so that a pause is not followed by a burst.
  tokens_ = std::min(tokens_ + rate * 1e-9 * static_cast<double>(now_ns - filled_ns_), rate * 0.1);
  filled_ns_ = now_ns;
  return tokens_ >= 0 ? Duration::zero() : FromSeconds(-tokens_ / rate);
}

void ByteRate::Add(double tokens) {
  if (bytes_per_second_ == 0) return;
  const std::lock_guard lock(mutex_);
  tokens_ += tokens;
}

}  // namespace kedge
