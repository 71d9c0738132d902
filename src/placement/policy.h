// Placement policies: which tier takes the next chunk, whether its writer waits, which chunk is flushed next.
//
// [VeloC] algorithm 2 is one such policy; each is one file. A policy sees counters and a clock that it is given and touches
// nothing, so that the agent, tests and a simulator in virtual time run the same code. FIFO order is
// kept by the caller (src/agent/assignment.h): a policy is asked about the head of the queue only, and is asked again
// whenever something has changed.
//
// Threads: one policy object belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/clock.h"

namespace kedge {

// One tier that the writer may use, as it is now. `present` false: lost, or not ready yet.
struct TierLoad {
  bool present = true;
  uint32_t slots = 0;
  uint32_t free_slots = 0;       // can be assigned now
  uint32_t evictable_slots = 0;  // hold only what may go
  uint32_t writers = 0;          // Sw: slots assigned
  uint32_t flushing_chunks = 0;  // whose flush is queued or under way: their slots can become free
  uint64_t slot_bytes = 0;

  bool HasRoom() const { return present && (free_slots > 0 || evictable_slots > 0); }
};

struct NodeLoad {
  std::span<const TierLoad> tiers;      // the writer's, fastest first
  uint64_t flush_bytes_per_second = 0;  // of one flush, moving average; 0: none has ended yet
  uint32_t flushes_in_flight = 0;
};

struct PlaceDecision {
  enum class Kind { kTier, kWait, kThrough };
  Kind kind = Kind::kThrough;
  size_t tier = 0;  // kTier: index into NodeLoad::tiers
};

// The oldest queued piece of a tier: what could be flushed next.
struct FlushCandidate {
  size_t tier = 0;        // index into all tiers of the node
  uint64_t sequence = 0;  // order of arrival over all tiers
  uint64_t bytes = 0;
};

class PlacementPolicy {
 public:
  virtual ~PlacementPolicy() = default;

  // Where the chunk at the head of the queue goes. kTier only for a tier that HasRoom; kWait only when a flush that can
  // free a slot is queued or under way, for otherwise it would wait for ever; kThrough: to the store, by the client.
  virtual PlaceDecision Place(const NodeLoad& load, uint64_t chunk_bytes) = 0;

  // Index into `candidates` (not empty), or nothing to hold them back while writers wait for something better.
  virtual std::optional<size_t> NextFlush(std::span<const FlushCandidate> candidates) = 0;
};

// Null when there is no policy of that name. `clock` must outlive the policy.
std::unique_ptr<PlacementPolicy> MakePlacementPolicy(std::string_view name, const Clock& clock);

}  // namespace kedge
