// At most so many bytes per second, whoever writes them (flush.rate) or reads them (staging.alpha): a bucket of tokens, each a
// byte. Thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/clock.h"
#include "base/duration.h"

namespace kedge {

class ByteRate {
 public:
  // 0: no limit.
  ByteRate(const Clock& clock, uint64_t bytes_per_second) : clock_(clock), bytes_per_second_(bytes_per_second) {}

  void Set(uint64_t bytes_per_second);
  // For how long nothing may be written; zero: now.
  Duration Pause();
  // So many are written, whatever Pause said.
  void Take(uint64_t bytes) { Add(-static_cast<double>(bytes)); }
  // They need not be written after all.
  void GiveBack(uint64_t bytes) { Add(static_cast<double>(bytes)); }

 private:
  void Add(double tokens);

  const Clock& clock_;
  std::atomic<uint64_t> bytes_per_second_;
  std::mutex mutex_;
  double tokens_ = 0;  // bytes that may go now; negative after a piece that was larger
  int64_t filled_ns_ = clock_.NowNs();
};

}  // namespace kedge
