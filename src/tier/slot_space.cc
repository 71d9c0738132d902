#include "tier/slot_space.h"

#include <utility>

namespace kedge {
namespace {
constexpr int kFittingScanMax = 256;  // slots that fit, looked at for one that the owner had before
}
SlotSpace::SlotSpace(SlotTable table) : table_(std::move(table)), uses_(table_.slots()) {
  for (uint32_t slot = 0; slot < slots(); ++slot) Enter(slot);
}

template <typename Change>
void SlotSpace::ChangeBacking(uint32_t slot, Change change) {
  Leave(slot);
  change(uses_[slot]);
  Enter(slot);
}

void SlotSpace::Leave(uint32_t slot) {
  const Use& use = uses_[slot];
  if (IsAssigned(slot)) {
    --assigned_slots_;
  } else if (use.chunks == 0) {
    --free_slots_;
    spare_bytes_ -= use.backed_bytes;
    ready_.erase(slot);
    bare_.erase(slot);
    unknown_.erase(slot);
  } else if (use.pinned == 0) {
    --evictable_slots_;
  }
}

void SlotSpace::Enter(uint32_t slot) {
  const Use& use = uses_[slot];
  if (IsAssigned(slot)) {
    ++assigned_slots_;
  } else if (use.chunks == 0) {
    ++free_slots_;
    spare_bytes_ += use.backed_bytes;
    if (!use.held) (use.unknown ? unknown_ : use.backed_bytes > 0 ? ready_ : bare_).insert(slot);
  } else if (use.pinned == 0) {
    ++evictable_slots_;
  }
}

uint32_t SlotSpace::AssignedTo(uint32_t owner) const {
  return static_cast<uint32_t>(SlotsOf(owner).size());
}

std::vector<uint32_t> SlotSpace::SlotsOf(uint32_t owner) const {
  std::vector<uint32_t> found;
  for (uint32_t slot = 0; slot < slots(); ++slot) {
    SlotEntry entry = table_.Get(slot);
    if (entry.state == SlotState::kAssigned && entry.owner == owner) found.push_back(slot);
  }
  return found;
}

std::optional<uint32_t> SlotSpace::PickFree(uint32_t owner, uint64_t bytes) const {
  std::optional<uint32_t> best;
  int looked_at = 0;
  for (uint32_t slot : ready_) {
    const Use& use = uses_[slot];
    if (use.backed_bytes < bytes) continue;
    if (use.last_owner == owner) return slot;
    if (!best.has_value() || use.backed_bytes < uses_[*best].backed_bytes) best = slot;
    if (++looked_at == kFittingScanMax) break;
  }
  return best;
}

std::optional<uint32_t> SlotSpace::PickToBack(uint64_t bytes) const {
  std::optional<uint32_t> best;
  for (uint32_t slot : ready_) {
    const uint64_t backed_bytes = uses_[slot].backed_bytes;
    if (backed_bytes < bytes && (!best.has_value() || backed_bytes > uses_[*best].backed_bytes)) best = slot;
  }
  if (!best.has_value() && !bare_.empty()) best = *bare_.begin();
  return best;
}

std::optional<uint32_t> SlotSpace::PickToRelease() const {
  if (!unknown_.empty()) return *unknown_.rbegin();
  return ready_.empty() ? std::nullopt : std::optional(*ready_.rbegin());
}

void SlotSpace::SetBacked(uint32_t slot, uint64_t bytes) {
  ChangeBacking(slot, [&](Use& use) {
    backed_bytes_ += bytes - use.backed_bytes;
    use.backed_bytes = bytes;
    use.unknown = false;
  });
}

void SlotSpace::SetUnknown(uint32_t slot, uint64_t bytes) {
  SetBacked(slot, bytes);
  ChangeBacking(slot, [](Use& use) { use.unknown = true; });
}

void SlotSpace::Hold(uint32_t slot) {
  KEDGE_CHECK(IsFree(slot) && !uses_[slot].held);
  ChangeBacking(slot, [](Use& use) { use.held = true; });
}

void SlotSpace::Unhold(uint32_t slot) {
  KEDGE_CHECK(uses_[slot].held);
  ChangeBacking(slot, [](Use& use) { use.held = false; });
}

uint64_t SlotSpace::Assign(uint32_t slot, uint32_t owner) {
  KEDGE_CHECK(IsFree(slot) && !uses_[slot].held);
  Leave(slot);
  // What an earlier agent left in the word (pinned, cached) is over: no chunk refers to the slot.
  if (table_.Get(slot).state != SlotState::kFree) table_.SetState(slot, SlotState::kFree);
  uses_[slot].last_owner = owner;
  uint64_t generation = table_.Assign(slot, owner);
  Enter(slot);
  return generation;
}

bool SlotSpace::Return(uint32_t slot, uint64_t generation, uint32_t owner) {
  if (slot >= slots()) return false;
  SlotEntry entry = table_.Get(slot);
  if (entry.state != SlotState::kAssigned || entry.owner != owner || entry.generation != generation) return false;
  Leave(slot);
  const Use& use = uses_[slot];
  table_.SetState(slot, use.chunks == 0 ? SlotState::kFree : use.pinned > 0 ? SlotState::kPinned : SlotState::kCached);
  Enter(slot);
  return true;
}

bool SlotSpace::IsCurrent(uint32_t slot, uint64_t generation) const {
  if (slot >= slots()) return false;
  SlotEntry entry = table_.Get(slot);
  return entry.state != SlotState::kFree && entry.generation == generation && generation != 0;
}

void SlotSpace::AddChunk(uint32_t slot) {
  KEDGE_CHECK(slot < slots());
  Leave(slot);
  ++uses_[slot].chunks;
  if (++uses_[slot].pinned == 1 && !IsAssigned(slot)) table_.SetState(slot, SlotState::kPinned);
  Enter(slot);
}

void SlotSpace::Unpin(uint32_t slot) {
  KEDGE_CHECK(slot < slots() && uses_[slot].pinned > 0);
  Leave(slot);
  if (--uses_[slot].pinned == 0 && !IsAssigned(slot)) table_.SetState(slot, SlotState::kCached);
  Enter(slot);
}

void SlotSpace::Pin(uint32_t slot) {
  KEDGE_CHECK(slot < slots() && uses_[slot].pinned < uses_[slot].chunks);
  Leave(slot);
  if (++uses_[slot].pinned == 1 && !IsAssigned(slot)) table_.SetState(slot, SlotState::kPinned);
  Enter(slot);
}

void SlotSpace::RemoveChunk(uint32_t slot, bool pinned) {
  KEDGE_CHECK(slot < slots() && uses_[slot].chunks > 0);
  Leave(slot);
  Use& use = uses_[slot];
  --use.chunks;
  if (pinned) {
    KEDGE_CHECK(use.pinned > 0);
    --use.pinned;
  }
  KEDGE_CHECK(use.pinned <= use.chunks);
  if (!IsAssigned(slot)) {
    table_.SetState(slot, use.chunks == 0 ? SlotState::kFree : use.pinned > 0 ? SlotState::kPinned : SlotState::kCached);
  }
  Enter(slot);
}

uint32_t SlotSpace::FreeUnreferenced() {
  uint32_t freed = 0;
  for (uint32_t slot = 0; slot < slots(); ++slot) {
    SlotState state = table_.Get(slot).state;
    if (state == SlotState::kFree || state == SlotState::kAssigned || uses_[slot].chunks > 0) continue;
    table_.SetState(slot, SlotState::kFree);
    ++freed;
  }
  return freed;
}

}  // namespace kedge
