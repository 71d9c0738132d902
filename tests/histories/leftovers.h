// What should not be in a store when a job has ended in good order.
#pragma once

#include <string>
#include <vector>

#include "base/duration.h"
#include "store/store.h"

namespace kedge::histories {

// Generations that never became complete, below the newest that is.
std::vector<std::string> IncompleteGenerations(Store& store, const std::string& job, const std::string& name);

// Temporaries that are there still after a collection of garbage. Leases of agents that gave signs of life are watched for at
// most `patience`, which takes its time only where there are any.
std::vector<std::string> TemporariesAfterCollection(Store& store, Duration patience);

}  // namespace kedge::histories
