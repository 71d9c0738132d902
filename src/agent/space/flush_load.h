// What the flushes of this node have before them, as far as a place depends on it.
#pragma once

#include <cstdint>

#include "model/flush_meter.h"
#include "placement/policy.h"

namespace kedge {

class FlushLoad {
 public:
  virtual ~FlushLoad() = default;
  virtual const FlushMeter& meter() const = 0;
  // Of a tier unit.
  virtual uint64_t QueuedBytesOf(uint32_t unit) const = 0;
  // What is known of the node's flushes, for a placement policy. `average_bytes_per_second`: AvgFlushBW of the store that
  // matters.
  virtual NodeLoad Load(uint64_t average_bytes_per_second) const = 0;
};

}  // namespace kedge
