// Who and what is in the slots of one tier: the agent's accounting over the persistent slot table.
//
// A slot is free, or assigned to a session, and holds chunks of images. A chunk is *pinned* while it is owed a level or a
// reader has it, otherwise *evictable*. Several small chunks may share a slot; it is free again when its owner has returned
// it and its last chunk is gone. The table on file follows every change in one store each; what chunks lie where is
// rebuilt from the local records, so that only the assignment must survive the agent.
//
// A slot is *backed* from its start as far as there is space for it (Tier::Reserve). Who is given a slot writes no further. How
// far that is does not survive the agent: of a slot that its predecessor left, nothing is known until its space was released.
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
  // Slots that nobody uses, backed or not / that would be free if all evictable chunks went / the others.
  uint32_t free_slots() const { return free_slots_; }
  uint32_t evictable_slots() const { return evictable_slots_; }
  uint32_t occupied_slots() const { return slots() - free_slots() - evictable_slots_; }
  uint32_t assigned_slots() const { return assigned_slots_; }
  uint32_t AssignedTo(uint32_t owner) const;
  std::vector<uint32_t> SlotsOf(uint32_t owner) const;

  // A free slot that is backed for `bytes` at least: best one that `owner` had before (its page tables are in place), then the
  // one that is backed least, else the lowest.
  std::optional<uint32_t> PickFree(uint32_t owner, uint64_t bytes) const;
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

  // Nobody uses it, held or not.
  bool IsFree(uint32_t slot) const { return !IsAssigned(slot) && uses_[slot].chunks == 0; }
  uint32_t ChunksIn(uint32_t slot) const { return uses_[slot].chunks; }
  uint32_t PinnedIn(uint32_t slot) const { return uses_[slot].pinned; }

  // ---- Backing, in bytes from the slot's start; nothing is backed at first ----
  uint64_t BackedIn(uint32_t slot) const { return uses_[slot].backed_bytes; }
  void SetBacked(uint32_t slot, uint64_t bytes);
  uint64_t backed_bytes() const { return backed_bytes_; }
  // Of these, in free slots; and how many free slots that are not held have any.
  uint64_t spare_bytes() const { return spare_bytes_; }
  uint32_t spare_slots() const { return static_cast<uint32_t>(ready_.size()); }
  // Its backing is being changed by another thread: it is free, and not given out. REQUIRES: it is free / it is held.
  void Hold(uint32_t slot);
  void Unhold(uint32_t slot);
  bool IsHeld(uint32_t slot) const { return uses_[slot].held; }
  // The slot may be backed in any part, and counts as backed for `bytes`, until SetBacked.
  void SetUnknown(uint32_t slot, uint64_t bytes);
  bool IsUnknown(uint32_t slot) const { return uses_[slot].unknown; }
  // Free slots that are not held: one that is backed for less than `bytes`, though for most of it; the last one that is backed
  // at all. Unknown ones are only for the latter.
  std::optional<uint32_t> PickToBack(uint64_t bytes) const;
  std::optional<uint32_t> PickToRelease() const;

  // After a restart: slots of the table that are neither assigned nor hold a chunk become free. Returns how many there were.
  uint32_t FreeUnreferenced();

 private:
  struct Use {
    uint32_t chunks = 0;
    uint32_t pinned = 0;
    uint32_t last_owner = 0;
    uint64_t backed_bytes = 0;
    bool held = false;
    bool unknown = false;
  };
  // Counts and state of one slot are taken out before a change and put back after it.
  void Leave(uint32_t slot);
  void Enter(uint32_t slot);
  template <typename Change>
  void ChangeBacking(uint32_t slot, Change change);
  bool IsAssigned(uint32_t slot) const { return table_.Get(slot).state == SlotState::kAssigned; }

  SlotTable table_;
  std::vector<Use> uses_;
  // Free slots that are not held: backed in part or as a whole, not backed, and those of which that is not known.
  std::set<uint32_t> ready_;
  std::set<uint32_t> bare_;
  std::set<uint32_t> unknown_;
  uint32_t free_slots_ = 0;
  uint32_t evictable_slots_ = 0;
  uint32_t assigned_slots_ = 0;
  uint64_t backed_bytes_ = 0;
  uint64_t spare_bytes_ = 0;
};

}  // namespace kedge
