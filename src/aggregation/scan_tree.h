// The tree along which agents scan a line of nodes: who hears whom, and how deep it is.
//
// Every subtree is a run of the line, so a sum of what lies before a node comes down the same tree:
//
//   up:    a node merges its left run, itself and its right run, and tells its parent.
//   down:  it tells its left child what lies before its own run, and its right child the same plus left run and itself;
//          and both what the root knows.
//
// The depth is floor(log2 n), so an answer takes at most 2 log2 n messages, one after the other. A node has at most three
// neighbours, and each message is a summary (summary.h) and a number of bytes.
#pragma once

#include <cstdint>
#include <optional>

namespace kedge::aggregation {

struct TreePlace {
  uint32_t begin = 0;  // of the run of its subtree
  uint32_t end = 0;
  uint32_t depth = 0;  // of this node; the root has 0
  std::optional<uint32_t> parent, left, right;
};

// REQUIRES: node < nodes.
TreePlace PlaceInTree(uint32_t node, uint32_t nodes);
// Of the deepest node. REQUIRES: nodes > 0.
uint32_t TreeDepth(uint32_t nodes);

}  // namespace kedge::aggregation
