// What one node does for a version: which run of its bytes goes to which leader's stripes.
//
// A node's bytes are its images, one after the other. A leader keeps its first ones; what it has beyond its stripes, and all of
// the others, is surplus. Surplus and room of a district are matched along the line (the rule of the north-west corner); what is
// left over is matched along the line of districts. So a node has to know the roles and how many bytes lie before it, and a
// leader's stripes are filled exactly, without gap or overlap.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregation/election.h"

namespace kedge::aggregation {

struct Transfer {
  uint64_t from = 0;    // in the node's bytes
  uint32_t leader = 0;  // its position in Roles::leaders; the node's own where it keeps them
  uint64_t to = 0;      // in the leader's bytes, which fill its stripes in their order
  uint64_t bytes = 0;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// In the order of `from`. `before` bytes are the nodes' that stand before it in the line.
// REQUIRES: roles are of a summary that this node, with `bytes`, is part of.
std::vector<Transfer> ShareOf(const Line& line, const Roles& roles, uint32_t node, uint64_t before, uint64_t bytes);

}  // namespace kedge::aggregation
