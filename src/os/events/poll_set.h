// Waits until one of a few descriptors is readable: for a thread that must look at other things too before it sleeps, and
// so cannot give the wait to an EventLoop.
#pragma once

#include <vector>

#include "base/duration.h"
#include "base/status.h"

namespace kedge::os {

// Returns when one is readable or hung up, when `timeout` has passed (to the nanosecond; zero or less: at once), or when a
// signal came. An empty list just sleeps.
Status WaitReadable(const std::vector<int>& descriptors, Duration timeout);

}  // namespace kedge::os
