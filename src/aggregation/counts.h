// How many leaders and how many objects: what the file system's targets ask for, or what the user says.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace kedge::aggregation {

// Bytes per second; 0 where nothing is known.
struct FileSystem {
  uint32_t targets = 0;                // storage targets (OSTs); 0: none that are known
  double target_bytes_per_second = 0;  // that one target takes
  double object_bytes_per_second = 0;  // that one writer gets into one object
  double node_bytes_per_second = 0;    // that all writers of a node get together
};

// One divides the other, so that each leader has whole objects, or each object whole leaders.
struct Counts {
  uint32_t leaders = 0;
  uint32_t objects = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
};

// What is asked for; 0: to be chosen.
struct Asked {
  uint32_t leaders = 0;
  uint32_t objects = 0;
};

// The most that a version uses; one of few bytes uses fewer (Elect).
//
// Objects are chosen so that the targets are busy, all with the same number of them: targets x ceil(target rate / object rate).
// With fewer nodes than objects every node leads, with as many objects as it can write at once and as the targets take. Without
// targets there is an object for each node, and every node leads.
// kInvalidArgument: `asked` has numbers of which neither divides the other, or more leaders than there are nodes.
Result<Counts> ChooseCounts(uint32_t nodes, const FileSystem& file_system, const Asked& asked);

}  // namespace kedge::aggregation
