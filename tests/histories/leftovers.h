// What should not be in a store when a job has ended in good order.
#pragma once

#include <string>
#include <vector>

#include "store/store.h"

namespace kedge::histories {

// Generations that never became complete, below the newest that is.
std::vector<std::string> IncompleteGenerations(Store& store, const std::string& job, const std::string& name);

}  // namespace kedge::histories
