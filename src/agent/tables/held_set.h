// The table of sets of protected images, and slots that the agent takes for itself. The room protect keeps the sets
// (held_sets.h), space the slots (own_slots.h).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "agent/tables/tier_unit.h"
#include "format/set_records.h"
#include "tier/slot_space.h"

namespace kedge {

// Who owns the slots that the agent takes for itself (own_slots.h): no session has that number.
inline constexpr uint32_t kAgentSlotOwner = kSlotOwnersMax;

// A part of such a slot.
struct OwnRange : SlotPlace {
  uint64_t bytes = 0;
};

// Redundancy of a set that lies here: this node's parity, or a copy of another member's thin stream.
struct HeldObject {
  ParityRecord record;
  std::vector<OwnRange> ranges;
  bool pinned = true;  // as an image of its version on this node is

  bool IsLost() const;
};

// A set of protected images that this node is a member of (held_sets.h).
struct HeldSet {
  uint64_t number = 0;  // of its files
  SetRecord record;
  Buffer encoded;
  uint32_t crc32c = 0;                     // of `encoded`
  std::map<uint32_t, HeldObject> objects;  // by member
};

}  // namespace kedge
