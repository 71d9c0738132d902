// What status and metrics say of devices' speed, of where chunks went, and of how well that was predicted (throughput.h).
#pragma once

#include <string>

#include "agent/tables/model.h"
#include "base/json_writer.h"

namespace kedge {

class Agent;

// The key "placement" and its object: chunks by tier, waits, predicted and observed throughput.
void WritePlacement(const PlacementCounts& counts, JsonWriter& json);
// Fields of a tier's object: where its predictions come from, what they say now, and how well they held.
void WriteThroughput(const TierUnit& unit, JsonWriter& json);
std::string ThroughputMetrics(Agent& agent);

}  // namespace kedge
