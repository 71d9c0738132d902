// The schedule with the least expected time: the runtime's own answer to `kedge plan advise`.
//
// For given counts the cost is smooth in the logarithm of the interval, with one valley in practice: a grid finds it,
// golden section its bottom. Counts start from the first-order solution and move, one at a time or two against each
// other, while that helps. The twin of python/kedge/plan/optimum.py, step by step, so that both find the same.
#pragma once

#include <vector>

#include "base/status.h"
#include "model/interval_model.h"

namespace kedge {

struct IntervalOptimum {
  IntervalSchedule schedule;
  double efficiency = 0;  // 0 where no schedule makes progress
};

// The best schedule of all, with a period that fits into the work where the copies allow it. Some milliseconds of
// processor time for two levels, some tens for four; no locks, no I/O. kInvalidArgument as CheckIntervalSystem.
Result<IntervalOptimum> BestSchedule(const IntervalSystem& system);

// The best interval for given counts. kInvalidArgument as CheckIntervalSystem, and for the wrong number of counts.
Result<IntervalOptimum> BestInterval(const IntervalSystem& system, const std::vector<int>& counts);

}  // namespace kedge
