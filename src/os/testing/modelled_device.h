// A device on paper: a tier or a store whose throughput is a given function of the number of concurrent transfers, with a
// share that changes over time. All transfers under way get the same share of the total, as writers to one device do.
//
// It knows no clock: whoever drives it says what time it is, so that the same device runs in virtual time and behind threads.
// Time is in seconds since the beginning and only goes forward.
//
// Threads: belongs to one thread, or stands behind its owner's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

namespace kedge::os::testing {

class ModelledDevice {
 public:
  // Bytes per second of that many transfers together; greater than zero for one and more.
  using Total = std::function<double(uint32_t)>;
  // From `second` on the device does `factor` of its total; 0: it stalls. Seconds increase; before the first the factor is 1.
  struct Share {
    double second = 0;
    double factor = 1;
  };

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  explicit ModelledDevice(Total total, std::vector<Share> shares = {}) : total_(std::move(total)), shares_(std::move(shares)) {}

  // Moves all transfers forward to `now`. REQUIRES: now is not before the last call's and not after NextEnd().
  void Advance(double now);
  // Begins a transfer of so many bytes, as of the time of the last Advance; `id` is the caller's.
  void Begin(uint64_t id, double bytes);
  // When the next transfer ends if none begins before; kNever without one, or when the device has stalled for good.
  double NextEnd() const;
  // Takes out one transfer that has ended by the time of the last Advance; false when there is none.
  bool TakeEnded(uint64_t* id);
  uint32_t transfers() const { return static_cast<uint32_t>(transfers_.size()); }
  // Bytes per second of all transfers that the device does at `second` with so many of them.
  double TotalAt(double second, uint32_t transfers) const { return total_(transfers) * FactorAt(second); }

 private:
  struct Transfer {
    double target = 0;  // of served_, when it has all its bytes
    uint64_t order = 0;
    uint64_t id = 0;
    bool operator>(const Transfer& other) const { return target != other.target ? target > other.target : order > other.order; }
  };
  double FactorAt(double second) const;
  double NextChange(double second) const;

  Total total_;
  std::vector<Share> shares_;
  std::priority_queue<Transfer, std::vector<Transfer>, std::greater<>> transfers_;
  double now_ = 0;
  double served_ = 0;  // bytes that a transfer got that has been under way since the beginning
  uint64_t last_order_ = 0;
};

}  // namespace kedge::os::testing
