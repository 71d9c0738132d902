// What the flushes of a node achieve, for the placement policies: one of them (AvgFlushBW, moving_average.h), and all together.
//
// All together is not the average times the flushes under way: the average comes from times when more or fewer were. Each flush
// that ends tells its bytes over its seconds times how many there were meanwhile, on average; these are averaged over the window,
// by time as well. One flush is expected to take as long as the average, or as its share of all together allows where more are
// under way than were. A flush that is under way for longer than it should lowers that at once, by its age: a store that stalls
// is seen while it stalls, not after.
//
// Threads: belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "model/moving_average.h"

namespace kedge {

class FlushMeter {
 public:
  // `prior` as in MovingAverage.
  explicit FlushMeter(double prior_bytes_per_second = 0) : average_(prior_bytes_per_second) {}

  // A flush of so many bytes from a tier (the caller's number for it) begins; the returned number names it.
  uint64_t Begin(uint64_t bytes, uint32_t tier, int64_t now_ns);
  // It has ended. Only what went well is counted.
  void End(uint64_t flush, bool well, int64_t now_ns);

  uint32_t in_flight() const { return static_cast<uint32_t>(flights_.size()); }
  uint32_t InFlightOf(uint32_t tier) const;
  // Until the first of the tier's flushes ends by prediction; one that is late is expected to take as long again as it is late.
  // 0 when none is under way or nothing is known.
  double SecondsToNextEndOf(uint32_t tier, int64_t now_ns) const;
  // Of one flush; 0: unknown.
  double average() const { return average_.bytes_per_second(); }
  // Of all together while some are under way; 0: unknown.
  double total(int64_t now_ns) const;

 private:
  struct Flight {
    uint64_t bytes = 0;
    uint32_t tier = 0;
    int64_t begin_ns = 0;
    double flights_begin = 0;  // flight_seconds_ then
  };
  void Advance(int64_t now_ns);
  // Bytes per second that one of those under way is expected to get.
  double expected() const;

  MovingAverage average_;
  MovingAverage total_;
  std::map<uint64_t, Flight> flights_;  // the first one is the oldest
  std::map<uint32_t, std::set<uint64_t>> of_tier_;
  uint64_t last_ = 0;
  double flight_seconds_ = 0;  // the flushes under way, integrated over time
  int64_t now_ns_ = 0;
};

}  // namespace kedge
