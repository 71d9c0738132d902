// Collective writes (MPI-IO, as ROMIO does them on Lustre): in rounds, an aggregator for each target gathers a stripe and writes
// it.
#pragma once

#include <cstdint>

#include "striped/machine.h"

namespace kedge::bench {

struct CollectiveWrite {
  uint32_t processes = 0;  // that take part
  uint32_t nodes = 0;      // an aggregator for each, at most one for each target
  uint64_t bytes = 0;      // of all
  // Of the file's rounds only one in so many has data: what the processes write is that much spread. The others only synchronize.
  uint32_t spread = 1;
};

// Returns when it has ended.
double RunCollective(const Machine& machine, const CollectiveWrite& write, uint64_t seed, double start);

}  // namespace kedge::bench
