// Nodes of random places, sizes and loads, from a seed.
#pragma once

#include <string>
#include <vector>

#include "aggregation/election.h"
#include "base/random.h"

namespace kedge::aggregation::testing {

struct RandomNodes {
  Line line;
  std::vector<NodeSize> sizes;
};

inline std::vector<Member> Members(uint32_t nodes, uint32_t places) {
  std::vector<Member> members;
  for (uint32_t i = 0; i < nodes; ++i) {
    members.push_back({"n" + std::to_string(100000 + i), "s" + std::to_string(1000 + uint64_t{i} * places / nodes)});
  }
  return members;
}

// Sizes of several kinds: equal, a little different, very different, some empty.
inline RandomNodes MakeRandomNodes(uint64_t seed, uint32_t nodes_max, uint64_t bytes_max) {
  Random random(seed);
  const auto nodes = static_cast<uint32_t>(1 + random.Below(nodes_max));
  const auto places = static_cast<uint32_t>(1 + random.Below(nodes));
  RandomNodes made{*MakeLine(Members(nodes, places)), {}};
  const uint64_t kind = random.Below(4);
  const uint64_t equal = 1 + random.Below(bytes_max);
  for (uint32_t i = 0; i < nodes; ++i) {
    uint64_t bytes = equal;
    if (kind == 1) bytes += random.Below(1 + equal / 16);
    if (kind == 2) bytes = (1 + random.Below(bytes_max)) >> random.Below(12);
    if (kind == 3) bytes = random.Chance(0.3) ? 0 : random.Below(bytes_max);
    made.sizes.push_back({bytes, static_cast<uint8_t>(random.Chance(0.5) ? 0 : random.Below(256))});
  }
  return made;
}

// Of which one divides the other.
inline Counts RandomCounts(Random& random, uint32_t nodes) {
  const auto leaders = static_cast<uint32_t>(1 + random.Below(nodes));
  if (random.Chance(0.3)) return {leaders, static_cast<uint32_t>(leaders * (1 + random.Below(4)))};
  if (random.Chance(0.3)) return {leaders, leaders};
  auto objects = static_cast<uint32_t>(1 + random.Below(leaders));
  while (leaders % objects != 0) --objects;
  return {leaders, objects};
}

}  // namespace kedge::aggregation::testing
