// The scan of all nodes in one process, message by message as agents exchange them: for tests, and for the model in
// bench/striped.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregation/election.h"

namespace kedge::aggregation::testing {

struct ScanResult {
  Summary root;
  std::vector<uint64_t> before;    // by node: bytes of the nodes before it
  uint32_t steps = 0;              // messages one after the other, up and down
  uint64_t messages = 0;           // of all nodes
  uint64_t message_bytes_max = 0;  // of one message
};

// Along the tree of scan_tree.h. `sizes` has one entry for each node of the line.
ScanResult Scan(const Line& line, uint32_t leaders, const std::vector<NodeSize>& sizes);

}  // namespace kedge::aggregation::testing
