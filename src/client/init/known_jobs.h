// What the agents of the ranks' nodes know of the job before it starts: by it a job goes on whose store cannot be reached, and
// no attempt gets a number that one without the store had before it.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "client/core/core.h"
#include "session/connection.h"
#include "session/messages.h"

namespace kedge::client {

// Collective. Of all nodes together, one entry for each store, and each restart once. `agent`: this rank's, if it has one; one
// that does not answer as it should knows nothing, and its status takes the connection's place.
Result<std::vector<KnownJob>> GatherKnownJobs(const Core& core, Result<std::unique_ptr<Connection>>* agent);

// Those of which the nodes know more than a number: versions, live ranks, or an attempt that the store was not told of.
std::vector<KnownJob> GoingOn(const std::vector<KnownJob>& known);

// The entry of that store; one with attempt 0 when there is none.
KnownJob KnownIn(const std::vector<KnownJob>& known, const StoreId& store_id);

}  // namespace kedge::client
