// What a scenario's runs in virtual time and against the wall clock have in common: devices, capacities, noise, the summary.
#pragma once

#include <string_view>
#include <vector>

#include "modelled/node.h"
#include "modelled/runner.h"

namespace kedge::bench {

// The clocks of both begin here, so that no time is 0.
inline constexpr int64_t kStartNs = 1'000'000'000;

std::vector<os::testing::ModelledDevice> TierDevices(const Scenario& scenario);
os::testing::ModelledDevice StoreDevice(const Scenario& scenario);
// Of the tiers; the first one of "cache-only" holds everything ([VeloC] V-B: the ideal case).
std::vector<uint32_t> CapacitiesFor(const Scenario& scenario, std::string_view policy);
PlacementResult Summary(const Scenario& scenario, std::string_view policy, const std::vector<ModelledNode::Counts>& nodes);

// What a chunk costs its device, in bytes: its size, and with noise more or less of that, at least a tenth. It depends on the
// seed, the chunk and whether it is written or flushed, not on the order of events: policies are compared over the same chunks.
enum class Transfer : uint64_t { kWrite, kFlush };
double TransferBytes(const Scenario& scenario, double noise, uint32_t node, uint64_t chunk, Transfer what);

}  // namespace kedge::bench
