// How many images of other nodes are written at once: as many as make it faster, and no more ([Sato 3.2]'s writer threads). Pure
// arithmetic, on bytes and times that it is given.
//
// The rate of a number of writers is measured over a period in which all of them had work. While more writers write faster by a
// twentieth, there are half as many more; then as few as are not slower than the best by a twentieth, found by halves. After a
// while it is looked again whether other numbers are better by now, and at once where the rate changes by much.
#pragma once

#include <cstdint>
#include <map>

#include "base/duration.h"

namespace kedge {

class WriterCount {
 public:
  struct Bounds {
    uint32_t least = 1;
    uint32_t most = 1;   // REQUIRES: least <= most, least > 0
    uint32_t first = 1;  // to begin with, as far as the bounds allow
  };
  explicit WriterCount(Bounds bounds);

  uint32_t now() const { return now_; }
  // So many bytes were written in the time, by as many writers as there are to be, or by fewer for want of work.
  void Add(uint64_t bytes, Duration time, bool all_had_work);

 private:
  void Decide(double rate);
  void Set(uint32_t writers);

  const Bounds bounds_;
  uint32_t now_;
  double bytes_ = 0, seconds_ = 0;  // of the period
  double settling_seconds_ = 0;     // since the number changed
  std::map<uint32_t, double> rates_;
  uint32_t held_ = 0, hold_;  // periods without a change, and how many until others are tried again
};

}  // namespace kedge
