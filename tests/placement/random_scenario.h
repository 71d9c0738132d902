// Scenarios drawn from a seed: any shape of curve, capacity, number of writers, and a store that stalls, drifts or changes its
// speed tenfold in the middle. The last tier holds everything, as [VeloC] III assumes of the secondary storage.
#pragma once

#include <cstdint>
#include <string>

namespace kedge::bench {

// The text of a scenario, so that a failing one can be printed and kept.
std::string RandomScenario(uint64_t seed);

}  // namespace kedge::bench
