// The table of tiers in use, and what is counted of each. The room space keeps it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "model/learned_curve.h"
#include "model/throughput_curve.h"
#include "tier/slot_space.h"
#include "tier/tier.h"

namespace kedge {

// Where chunks went, what that cost, and how well it was predicted: of one image, a version, a tier, or all (throughput.h).
struct PlacementCounts {
  std::map<std::string, uint64_t> chunks;  // by tier; "store": written through for want of room
  uint64_t waits = 0;                      // requests for a place that had to wait
  double wait_seconds = 0;
  // Of chunks whose throughput was predicted and observed; sums over chunks, of one writer's bytes per second.
  uint64_t judged = 0;
  double predicted = 0;
  double observed = 0;
  double error = 0;  // |predicted - observed| / observed

  void Add(const PlacementCounts& other);
};

// A tier's speed, and who uses it now (throughput.h).
struct TierThroughput {
  std::string kind;  // of the device's calibration; empty: nothing is kept of it
  std::string device;
  std::optional<ThroughputCurve> curve;  // nothing: not known yet
  bool is_measured = false;              // the curve is a calibration's, else learned
  LearnedCurve learned;
  uint64_t fitted = 0;         // observations of `learned` that are in the curve
  uint64_t saved = 0;          // and that are on file
  uint32_t claims = 0;         // Sw: chunks that have a place here and are not written yet
  uint64_t bytes_to_come = 0;  // that their writers will ask for after them, and have not asked for yet
  uint32_t writing = 0;        // of these, being written
  double writing_seconds = 0;  // integral of `writing` over time, up to writing_ns
  int64_t writing_ns = 0;
  PlacementCounts judged;
};

// What the memory ledger keeps of a memory tier (memory_ledger.h).
struct TierMemory {
  uint32_t making = 0;        // free slots that are being backed
  uint32_t awaited = 0;       // of these, those that somebody waits for
  uint64_t making_bytes = 0;  // on top of what is backed, in these and in slots that grow
  uint32_t asked = 0;         // of `awaited`, those that somebody was told of in this turn
  uint64_t wanted_bytes = 0;  // of slots that its sessions will fill, as last looked at
  int64_t excess_since_ns = 0;
  std::set<uint32_t> hurried;     // slots whose space was reserved while somebody waited: their pages are to be made yet
  uint32_t preparing = 0;         // such slots that are held for a while, because that is being done
  int64_t volume_room_bytes = 0;  // of its file system, as last looked at, less what was taken since
  int64_t refused_until_ns = 0;   // that has refused space a moment ago
};

struct TierUnit;

// Where some bytes begin in a slot, which holds them as long as it is of that generation.
struct SlotPlace {
  TierUnit* unit = nullptr;  // null: not in a slot
  uint32_t slot = 0;
  uint64_t slot_generation = 0;
  uint64_t offset = 0;

  bool operator==(const SlotPlace&) const = default;
};

// One tier in use, with its accounting. A tier that is lost and made anew is another unit.
struct TierUnit {
  uint32_t id = 0;
  std::shared_ptr<Tier> tier;
  std::unique_ptr<SlotSpace> space;
  uint32_t full_slots = 0;  // as many slots as its capacity backs as a whole (space/tier_cut.h)
  std::string scratch;      // the job.scratch that it was opened for; empty: the node's
  bool lost = false;
  int64_t unused_since_ns = 0;   // when somebody had something in it last, as far as it may be closed
  uint32_t flushing_chunks = 0;  // whole ones on their way to the store, which will free their slots
  uint64_t bytes_captured = 0;   // in images that ended here
  TierThroughput throughput;
  TierMemory memory;

  const TierInfo& info() const { return tier->info(); }
  uint64_t capacity_bytes() const { return info().slot_bytes * full_slots; }
  // Of these, those that are left: each slot in use counts as one, however far it is backed.
  uint32_t FreeFullSlots() const { return full_slots - std::min(full_slots, space->slots() - space->free_slots()); }
};

}  // namespace kedge
