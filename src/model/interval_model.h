// What a schedule of checkpoints costs: the multilevel asynchronous Markov model, for any number of levels.
//
// The twin of the planner's Python model (python/kedge/plan/merge.py; docs/planner.md has the equations and the rules
// that a run follows). States are merged level by level: a row keeps the probability of passing through a part of the
// chain, those of leaving it by a failure that is answered further out, and the expected time inside. Both
// implementations are held together by tests/vectors/interval_optimum.json.
//
// Pure functions of their arguments, safe from any thread; nothing is kept between calls.
#pragma once

#include <limits>
#include <vector>

#include "base/status.h"

namespace kedge {

// Of a time or a cost: it never ends.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A protection level, from the fastest up. Seconds, and failures a second that need this level and no lower one.
struct IntervalLevel {
  double overhead_seconds = 0;  // the application is blocked by one checkpoint of this level, all included
  double latency_seconds = 0;   // from the call until the copy answers failures; the overhead if synchronous
  double restart_seconds = 0;
  double failure_rate_per_second = 0;
  bool asynchronous = false;
};

struct IntervalSystem {
  double work_seconds = 0;  // the job's computation; no period longer than it is advised
  double alpha = 0;         // computing takes 1 + alpha times as long while a copy is made in the background
  std::vector<IntervalLevel> levels;
};

// `interval_seconds` of computation between checkpoints; counts[i] checkpoints of level i between two of level i + 1
// or above, so one count fewer than levels.
struct IntervalSchedule {
  double interval_seconds = 0;
  std::vector<int> counts;
};

// kInvalidArgument names the first value out of range: negative or infinite numbers, a latency below the overhead,
// a synchronous level with another latency, background times that fall from one asynchronous level to the next.
Status CheckIntervalSystem(const IntervalSystem& system);

// The shortest interval in which each asynchronous copy is complete before the next of its level begins; 0 if any is.
double ShortestInterval(const IntervalSystem& system, const std::vector<int>& counts);

// Expected seconds from just after a checkpoint of the highest level to just after the next; infinite where no
// progress can be expected. kInvalidArgument for values out of range; kFailedPrecondition when the interval is shorter
// than ShortestInterval.
Result<double> ExpectedPeriodSeconds(const IntervalSystem& system, const IntervalSchedule& schedule);

// Work per expected time, 0 to 1. Fails like ExpectedPeriodSeconds.
Result<double> IntervalEfficiency(const IntervalSystem& system, const IntervalSchedule& schedule);

}  // namespace kedge
