// Slots of the agent's own: for what it makes or fetches itself, redundancy of a group's images and images that come back from
// other nodes.
//
// They are assigned under an owner of their own (kAgentSlotOwner), which no session has: what an agent that died had taken and
// not put on file is returned with the slots of the dead. Objects up to a slot share slots, taken forward, also those of several
// versions: a job of small versions would otherwise fill the tier with one slot for each. What is taken counts as a pinned chunk
// until it is released.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "agent/tables/held_set.h"
#include "agent/tables/session.h"

namespace kedge {

class Assignment;
class MemoryLedger;

class OwnSlots {
 public:
  OwnSlots(Assignment& assignment, MemoryLedger& memory) : assignment_(assignment), memory_(memory) {}

  // `bytes` (more than 0) in one slot of the first of `tiers` that has room; lets go of cached images for it. Nothing: no room
  // now, or the slots are smaller. While memory is made for it (MemoryLedger::IsMaking), there is room a moment later.
  std::optional<OwnRange> Take(const std::vector<TierUnit*>& tiers, uint64_t bytes);
  // Ranges that together hold `bytes`, in order: all, or nothing.
  std::optional<std::vector<OwnRange>> TakeAll(const std::vector<TierUnit*>& tiers, uint64_t bytes);
  // The same when there is another record of it: the range is counted again. False: the slot holds something else by now.
  bool Claim(const OwnRange& range);
  void Release(const OwnRange& range, bool pinned = true);
  // As if it had not been taken: who asks for as much again gets the same place, if that is being backed meanwhile. REQUIRES:
  // nobody has been told of it. What was taken last goes first.
  void GiveBack(const OwnRange& range);
  void GiveBackAll(const std::vector<OwnRange>& ranges);
  void ReleaseAll(const std::vector<OwnRange>& ranges, bool pinned = true);
  // What is left in the slots of these tiers that small objects go to.
  uint64_t LeftIn(const std::vector<TierUnit*>& tiers) const;
  // The slots that small objects go to are given out no further: others begin new ones.
  void Close();
  // The same in one tier, if what lies there may be evicted: it is worth more as room.
  void CloseEvictable(TierUnit* unit);

 private:
  struct Open {
    uint32_t slot = 0;
    uint64_t slot_generation = 0;
    uint64_t used = 0;
    bool grows = false;  // it is being backed further
  };
  // Null: it is not that slot any more, or not for the same bytes.
  Open* FindOpen(TierUnit* unit, uint32_t slot, uint64_t slot_generation);
  bool OpenSlot(TierUnit* unit, uint64_t bytes);
  // False: it cannot be backed for so much.
  bool Grow(TierUnit* unit, Open& open, uint64_t bytes);
  void CloseIn(TierUnit* unit);

  Assignment& assignment_;
  MemoryLedger& memory_;
  std::map<TierUnit*, Open> open_;
};

}  // namespace kedge
