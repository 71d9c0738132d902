// The file system of an actor: the real one, with the faults that the history steers for all processes (os/testing/steering.h),
// and on top those that it asks of this one alone.
#pragma once

#include "os/testing/fault_plan.h"

namespace kedge::histories {

os::testing::FaultPlan& OwnFaults();

}  // namespace kedge::histories
