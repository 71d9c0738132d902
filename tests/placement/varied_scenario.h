// Scenarios chosen by hand: the paper's node, and what may differ from it, one thing or two at a time. Unlike the random ones
// each has a name that says what it is, and is something that somebody may have: few writers and many, disks of every shape,
// small and large chunks and caches, slow and fast stores, stalls, tenfold changes, noise, three tiers.
#pragma once

#include <string>
#include <vector>

namespace kedge::bench {

struct VariedScenario {
  std::string name;
  std::string text;  // TOML
};

std::vector<VariedScenario> VariedScenarios();

}  // namespace kedge::bench
