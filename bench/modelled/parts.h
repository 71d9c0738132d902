// What a scenario's runs in virtual time and against the wall clock have in common: devices, capacities, noise, the summary.
#pragma once

#include <string_view>
#include <vector>

#include "base/random.h"
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

// What a chunk costs its device, in bytes: its size, and with noise more or less of that, at least a tenth.
class Noise {
 public:
  Noise(const Scenario& scenario, uint64_t seed)
      : random_(seed), bytes_(static_cast<double>(scenario.chunk_bytes)), deviation_(scenario.noise) {}
  double Bytes();

 private:
  Random random_;
  double bytes_;
  double deviation_;
};

}  // namespace kedge::bench
