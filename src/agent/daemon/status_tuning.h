// What status and metrics say of each job's measurements and of the interval that follows from them (tuning.h).
// python/kedge/plan/runtime_metrics.py reads both.
#pragma once

#include <string>

#include "agent/tables/job.h"
#include "base/json.h"

namespace kedge {

class Agent;

// Fields of the job's object: "observed_seconds", "blocked", "levels", "schedule".
Json TuningJson(Agent& agent, const Job& job);
// Metrics labelled with job and store id.
std::string TuningMetrics(Agent& agent);

}  // namespace kedge
