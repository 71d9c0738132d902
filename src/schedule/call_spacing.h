// How many calls of a question pass from one broadcast of its answer to the next.
//
// The ranks know the next one from the last one alone (client/checkpoint/pace.h), so that it is a number of calls, fixed ahead of
// time; the one who broadcasts chooses it by how fast the calls came since the last time. Between two broadcasts lie about
// kPeriod, so that an answer is no older. They lie no more than kAheadMax calls apart even so: a program that goes over to longer
// steps is to hear soon, and cannot be reached before. Only broadcasts that would take more than a fiftieth of the time, as those
// through files do, lie further apart. The distance at most doubles at a time, and shrinks at once.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/duration.h"

namespace kedge {

class CallSpacing {
 public:
  static constexpr Duration kPeriod = std::chrono::milliseconds(10);
  static constexpr uint64_t kAheadMax = 32;

  // `broadcast_cost`: what a broadcast takes whoever takes part in it, without waiting for the one who begins it.
  explicit CallSpacing(Duration broadcast_cost);
  // At a broadcast: after how many calls the next one is; 1: at the next call.
  uint64_t Next(int64_t now_ns);

 private:
  int64_t costly_period_ns_;
  int64_t last_ns_ = 0;
  uint64_t ahead_ = 0;  // 0: none yet
};

}  // namespace kedge
