// Placement policies: which tier takes the next chunk, whether its writer waits, which chunk is flushed next.
//
// [VeloC] algorithm 2 is one such policy; each is one file. A policy sees counters and a clock that it is given and touches
// nothing, so that the agent, tests and a simulator in virtual time run the same code. FIFO order is
// kept by the caller (assignment_queue.h): a policy is asked about the head of the queue only, and is asked again
// whenever something has changed.
//
// Threads: one policy object belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "model/throughput_curve.h"

namespace kedge {

// One tier that the writer may use, as it is now. `present` false: lost, or not ready yet.
struct TierLoad {
  bool present = true;
  uint32_t slots = 0;              // Smax
  uint32_t free_slots = 0;         // can be assigned now
  uint32_t evictable_slots = 0;    // hold only what may go
  uint32_t writers = 0;            // Sw: slots assigned
  uint32_t flushing_chunks = 0;    // whose flush is queued or under way: their slots can become free
  uint32_t flushes_in_flight = 0;  // from this tier
  double next_flush_seconds = 0;   // until the first of these ends, by prediction; 0: unknown
  uint64_t slot_bytes = 0;
  uint64_t backlog_bytes = 0;              // captured there, and their flush has not begun
  uint64_t bytes_to_come = 0;              // that its writers are known to ask for when they have written; 0: nothing, or unknown
  const ThroughputCurve* curve = nullptr;  // MODEL(S, .); null: not calibrated, and not learned yet. Outlives the call only.

  uint32_t room() const { return present ? free_slots + evictable_slots : 0; }
  bool HasRoom() const { return room() > 0; }
  // A slot of it that is taken now can become free by a flush.
  bool FlushCanFree() const { return present && flushing_chunks > 0; }
};

struct NodeLoad {
  std::span<const TierLoad> tiers;            // the writer's, fastest first by the configuration
  uint64_t flush_bytes_per_second = 0;        // AvgFlushBW: of one flush, moving average; 0: none has ended yet
  uint64_t flush_total_bytes_per_second = 0;  // of all flushes together (model/flush_meter.h); 0: unknown
  uint32_t flushes_in_flight = 0;
  uint32_t waiting = 0;                // requests in the queue, the head's too
  uint64_t waiting_bytes = 0;          // that they ask for
  uint64_t waiting_bytes_to_come = 0;  // that the same clients are known to ask for after that
  uint64_t head_bytes_to_come = 0;     // of that, the head's
  int64_t head_since_ns = 0;           // when the request became the head
};

struct PlaceDecision {
  enum class Kind { kTier, kWait, kThrough };
  Kind kind = Kind::kThrough;
  size_t tier = 0;  // kTier: index into NodeLoad::tiers
  // kWait: ask again after this time even if nothing has changed; zero: a change is enough.
  Duration ask_again = Duration::zero();
};

// The oldest queued piece of a tier: what could be flushed next.
struct FlushCandidate {
  static constexpr size_t kNoTier = SIZE_MAX;
  size_t tier = 0;        // index into NodeLoad::tiers; kNoTier: what lies in none (a routed file)
  uint64_t sequence = 0;  // order of arrival over all tiers
  uint64_t bytes = 0;
};

class PlacementPolicy {
 public:
  virtual ~PlacementPolicy() = default;

  // Where the chunk at the head of the queue goes. kTier only for a tier that HasRoom for it. kWait only when something is
  // under way that can end the wait: a flush (queued or under way) that can free a slot, or, for a bounded time, a write.
  // kThrough: to the store, by the client.
  virtual PlaceDecision Place(const NodeLoad& load, uint64_t chunk_bytes) = 0;

  // Index into `candidates` (not empty), or nothing to hold them back while writers wait for something better; that only while
  // another flush is under way. `load.tiers` are all tiers of the node, `load.waiting` all requests there are (may be 0).
  virtual std::optional<size_t> NextFlush(const NodeLoad& load, std::span<const FlushCandidate> candidates) = 0;
};

// Null when there is no policy of that name. `clock` must outlive the policy.
std::unique_ptr<PlacementPolicy> MakePlacementPolicy(std::string_view name, const Clock& clock);

// The names that MakePlacementPolicy knows, the default first.
std::vector<std::string_view> PlacementPolicyNames();

// What several policies share.

// Index of the candidate that arrived first.
size_t OldestCandidate(std::span<const FlushCandidate> candidates);
// Whether a flush can free a slot that takes the chunk.
bool FlushCanFreeFor(const NodeLoad& load, uint64_t chunk_bytes);

// The first of the tiers [begin, end) that has room; else a wait for a flush that can free a slot of one; else through.
PlaceDecision FirstWithRoom(const NodeLoad& load, size_t begin, size_t end, uint64_t chunk_bytes);

}  // namespace kedge
