// One run of a weak-scaling study on paper: every node writes a checkpoint to local storage, and flushes it by a strategy.
//
// The model is one of discrete events. Servers (targets, the metadata server, a node's streams, its network) are first in, first
// out. Where bytes go with `leaders` and `posix` is what src/aggregation computes, node by node, as agents do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/counts.h"
#include "aggregation/line.h"
#include "striped/machine.h"

namespace kedge::bench {

enum class Strategy : uint8_t { kFile, kPosix, kMpiIo, kGenericIo, kLeaders };
// "file", "posix", "mpi-io", "generic-io", "leaders".
const std::vector<std::string>& StrategyNames();
std::optional<Strategy> StrategyOf(std::string_view name);

struct Study {
  Strategy strategy = Strategy::kFile;
  uint32_t nodes = 1;
  uint32_t ranks_per_node = 16;
  uint64_t bytes_per_rank = 1'000'000'000;
  double size_spread = 0;         // a rank's bytes are uniform in 1 - spread to 1 + spread of bytes_per_rank
  uint32_t nodes_of_switch = 64;  // consecutive nodes share a place
  aggregation::Asked asked;       // leaders
  uint64_t seed = 1;
  Machine machine;
};

// Seconds are from the beginning of the phase.
struct StudyResult {
  uint64_t bytes = 0;
  double local_seconds = 0;  // the application is blocked
  double flush_seconds = 0;  // from then until all is in the file system; with GenericIO both are the same
  double scan_seconds = 0;   // of the flush: until every agent has its plan, without computing it
  uint64_t files = 0;
  uint32_t leaders = 0;
  uint64_t moved_bytes = 0;  // over the network, to leaders
  uint64_t hand_overs = 0;   // of locks
};

// The nodes with their places.
aggregation::Line LineOf(const Study& study);
// How many leaders and objects at most. kInvalidArgument: what is asked for is not possible.
Result<aggregation::Counts> CountsOf(const Study& study);

// REQUIRES: CountsOf(study).ok()
StudyResult RunStudy(const Study& study);

}  // namespace kedge::bench
