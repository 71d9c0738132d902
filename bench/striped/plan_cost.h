// What the plan of leaders costs one agent, measured on this machine with the code that agents run.
#pragma once

#include <cstdint>

#include "striped/study.h"

namespace kedge::bench {

struct PlanCost {
  uint32_t nodes = 0;
  uint32_t leaders = 0;
  uint32_t steps = 0;                // messages one after the other
  uint64_t message_bytes_max = 0;    // of the messages of this version
  uint64_t message_bytes_bound = 0;  // of any version's
  uint64_t agent_bytes = 0;  // an agent holds meanwhile: three summaries and the roles; not the members, which it has anyway
  double agent_seconds = 0;  // of the root, which merges most: two merges, the election, its own share; the least of 50
};

PlanCost MeasurePlan(const Study& study);

}  // namespace kedge::bench
