// A clock that moves only when told to, for tests and virtual time.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/duration.h"

namespace kedge::testing {

class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t start_ns = 0) : now_ns_(start_ns) {}
  int64_t NowNs() const override { return now_ns_.load(std::memory_order_acquire); }
  void Advance(Duration duration) { now_ns_.fetch_add(duration.count(), std::memory_order_acq_rel); }

 private:
  std::atomic<int64_t> now_ns_;
};

}  // namespace kedge::testing
