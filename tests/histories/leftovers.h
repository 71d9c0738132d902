// What should not be there when a job has ended in good order: in its store, and of its processes.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/duration.h"
#include "store/store.h"

namespace kedge::histories {

// As `kedge gc --yes` does it in the middle of a life; false: the store cannot be read.
bool CollectAtLeisure(Store& store, Duration patience);

// Generations that never became complete, below the newest that is; complete ones beyond the newest `keep`; and abandoned ones
// that as many were taken after.
std::vector<std::string> UnwantedGenerations(Store& store, const std::string& job, const std::string& name, size_t keep);

// Temporaries that are there still after a collection of garbage. Leases of agents that gave signs of life are watched for at
// most `patience`, which takes its time only where there are any.
std::vector<std::string> TemporariesAfterCollection(Store& store, Duration patience);

// Tells the agent that serves a run folder to leave: when nothing is pending there, or at once. False: none has heard it.
bool TellAgentToLeave(const std::string& run_folder, bool when_drained);

// Processes with `text` in their command line, which is told with them.
std::map<int, std::string> ProcessesWith(const std::string& text);

}  // namespace kedge::histories
