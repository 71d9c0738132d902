// What the store has of a job when an attempt begins: so that a name's first checkpoint, which waits for nobody, knows whether
// its version is a new one. Rank 0 looks, once, and tells all: the ranks refuse alike, and none asks the store again.
//
// Bounded in time, names and bytes. What was not looked at, or could not be, is said in the log, and refused nowhere: its first
// version may be one that is there already.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "client/core/core.h"

namespace kedge::client {

// The newest complete version of each checkpoint name. Collective, from init.
Result<std::map<std::string, int64_t>> GatherNewestStored(const Core& core);

}  // namespace kedge::client
