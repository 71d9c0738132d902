// Who and what is in the slots of one tier: the agent's accounting over the persistent slot table.
//
// A slot is free, or assigned to a session, and holds chunks of images. A chunk is *pinned* while it is owed a level or a
// reader has it, otherwise *evictable*. Several small chunks may share a slot; it is free again when its owner has returned
// it and its last chunk is gone. The table on file follows every change in one store each; what chunks lie where is
// rebuilt from the local records, so that only the assignment must survive the agent.
//
// Threads: the agent's event loop only. Broken counts are broken invariants and abort.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "tier/slot_table.h"

namespace kedge {

class SlotSpace {
 public:
  // All slots that the table calls pinned or cached are taken for free: their chunks are added again by the caller, who
  // then calls FreeUnreferenced.
  explicit SlotSpace(SlotTable table);

  uint32_t slots() const { return table_.slots(); }
  SlotEntry Get(uint32_t slot) const { return table_.Get(slot); }
  // Slots from `usable` on have no space yet and are not given out. Starts at 0.
  void SetUsable(uint32_t usable);
  uint32_t usable() const { return usable_; }
  // Slots that can be assigned at once / that would be free if all evictable chunks went / the others.
  uint32_t free_slots() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t evictable_slots() const { return evictable_slots_; }
  uint32_t occupied_slots() const { return slots() - free_slots_all_ - evictable_slots_; }
  uint32_t assigned_slots() const { return assigned_slots_; }
  uint32_t AssignedTo(uint32_t owner) const;
  std::vector<uint32_t> SlotsOf(uint32_t owner) const;

  // A free slot, best one that `owner` had before (its page tables are in place), else the lowest.
  std::optional<uint32_t> PickFree(uint32_t owner) const;
  // The slot's new generation. REQUIRES: PickFree gave it.
  uint64_t Assign(uint32_t slot, uint32_t owner);
  // The owner writes no more into it. False, and nothing happens, unless it is assigned to `owner` in that generation.
  bool Return(uint32_t slot, uint64_t generation, uint32_t owner);

  // Whether a placement still means these bytes: the slot is in use under that generation.
  bool IsCurrent(uint32_t slot, uint64_t generation) const;
  // A chunk in the slot, pinned. REQUIRES: IsCurrent, or after a restart a slot that is still to be referenced.
  void AddChunk(uint32_t slot);
  void Unpin(uint32_t slot);  // one of its pinned chunks becomes evictable
  void Pin(uint32_t slot);    // and back
  void RemoveChunk(uint32_t slot, bool pinned);

  uint32_t ChunksIn(uint32_t slot) const { return uses_[slot].chunks; }
  uint32_t PinnedIn(uint32_t slot) const { return uses_[slot].pinned; }

  // After a restart: slots of the table that are neither assigned nor hold a chunk become free. Returns how many there were.
  uint32_t FreeUnreferenced();

 private:
  struct Use {
    uint32_t chunks = 0;
    uint32_t pinned = 0;
    uint32_t last_owner = 0;
  };
  // Counts and state of one slot are taken out before a change and put back after it.
  void Leave(uint32_t slot);
  void Enter(uint32_t slot);
  bool IsAssigned(uint32_t slot) const { return table_.Get(slot).state == SlotState::kAssigned; }

  SlotTable table_;
  std::vector<Use> uses_;
  std::set<uint32_t> free_;  // below usable_
  uint32_t usable_ = 0;
  uint32_t free_slots_all_ = 0;
  uint32_t evictable_slots_ = 0;
  uint32_t assigned_slots_ = 0;
};

}  // namespace kedge
