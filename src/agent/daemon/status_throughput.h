// What status and metrics say of devices' speed, of where chunks went, and of how well that was predicted (throughput.h).
#pragma once

#include <string>

#include "agent/tables/tier_unit.h"
#include "base/json.h"

namespace kedge {

class Agent;

// The object under "placement": chunks by tier, waits, predicted and observed throughput.
Json PlacementJson(const PlacementCounts& counts);
// Fields of a tier's object: where its predictions come from, what they say now, and how well they held.
Json ThroughputJson(const TierUnit& unit);
std::string ThroughputMetrics(Agent& agent);

}  // namespace kedge
