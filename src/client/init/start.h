// What kedge_init does before the session: configuration, the ranks' agreement on job and store, and the attempt.
#pragma once

#include <memory>

#include "base/status.h"
#include "client/core/core.h"
#include "session/connection.h"
#include "session/messages.h"
#include "store/attempts.h"

namespace kedge::client {

// Reads the configuration of `options` (may be null) into `core`.
Status ReadSettings(const kedge_options* options, Core* core);

// Collective. All ranks end with the same job and store, and the number of a new attempt that rank 0 acquired; or all with the
// same error. kBusy: another live attempt holds the job. `agent`: as for GatherKnownJobs, not attached yet. When the store cannot
// be reached and the nodes know the job, it goes on without (Core::attempt_unrecorded).
Status AgreeOnAttempt(Core* core, Result<std::unique_ptr<Connection>>* agent);

// For attempts in the name of this process.
AttemptRequest OwnRequest(const Core& core);

// Collective. Who runs on which node, from every rank's Welcome (null: it has no agent).
Result<Membership> GatherMembers(const Core& core, const Welcome* welcome);

}  // namespace kedge::client
