// Runs a scenario under a policy: in virtual time, or against the wall clock with a thread for each writer and flush.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "modelled/scenario.h"

namespace kedge::bench {

// All seconds are modelled seconds, from the start. With several nodes: of the slowest; chunks and waits are sums.
struct PlacementResult {
  std::string policy;
  double local_seconds = 0;  // until the last writer has written its last chunk
  double flush_seconds = 0;  // until the last chunk is in the store
  double bound_seconds = 0;
  std::vector<std::pair<std::string, uint64_t>> chunks;  // by tier, and "store": straight there
  uint64_t waits = 0;
  double wait_seconds = 0;
  double model_error_mean = 0;
};

// REQUIRES: a policy of that name. By the scenario's time_scale. "cache-only" gets a first tier that holds everything.
PlacementResult RunScenario(const Scenario& scenario, std::string_view policy);

}  // namespace kedge::bench
