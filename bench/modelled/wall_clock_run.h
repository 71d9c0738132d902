// A scenario against the wall clock: a thread for each writer and each flush, modelled devices that make them wait, and the
// same node as in virtual time under one lock. It confirms that the figures of virtual time are those of real concurrency.
#pragma once

#include <string_view>
#include <vector>

#include "modelled/node.h"

namespace kedge::bench {

inline constexpr uint32_t kWallClockThreadsMax = 2048;

// REQUIRES: time_scale > 0; at most kWallClockThreadsMax writers and flush workers on all nodes.
std::vector<ModelledNode::Counts> RunAgainstTheWallClock(const Scenario& scenario, std::string_view policy);

}  // namespace kedge::bench
