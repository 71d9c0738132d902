// Time, injected: what paces, measures or decides takes a Clock, so that tests and the placement simulator run the same code in
// virtual time. Wall time is for records and people; it may jump, and nothing that must be right is computed from it.
#pragma once

#include <cstdint>
#include <string>

#include "base/duration.h"

namespace kedge {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an arbitrary start; never goes back. Thread safe. Comparable between processes of one boot when
  // it is the system clock (CLOCK_MONOTONIC).
  virtual int64_t NowNs() const = 0;
};

// The machine's monotonic clock. Lives for ever.
const Clock& SystemClock();

// Nanoseconds since 1970-01-01 UTC.
int64_t WallTimeNs();
// UTC with milliseconds, RFC 3339: "2026-11-21T05:58:01.250Z".
std::string FormatWallTime(int64_t unix_time_ns);

// A point in time after which a wait ends. Durations too long to add end never.
class Deadline {
 public:
  Deadline(const Clock& clock, Duration timeout);
  // Zero when it has passed.
  Duration Remaining() const;
  bool Passed() const { return Remaining() <= Duration::zero(); }

 private:
  const Clock* clock_;
  int64_t end_ns_;
};

}  // namespace kedge
