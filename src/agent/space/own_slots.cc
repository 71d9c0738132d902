#include "agent/space/own_slots.h"

#include <algorithm>

#include "agent/space/assignment.h"
#include "agent/space/memory_ledger.h"
#include "format/image_record.h"

namespace kedge {
namespace {

// Where the next one may begin.
uint64_t EndOf(const OwnRange& range) {
  return std::min(range.unit->info().slot_bytes, range.offset + AlignChunkOffset(range.bytes));
}

}  // namespace

void OwnSlots::CloseIn(TierUnit* unit) {
  auto found = open_.find(unit);
  if (found == open_.end()) return;
  unit->space->Return(found->second.slot, found->second.slot_generation, kAgentSlotOwner);
  open_.erase(found);
}

void OwnSlots::Close() {
  while (!open_.empty()) CloseIn(open_.begin()->first);
}

uint64_t OwnSlots::LeftIn(const std::vector<TierUnit*>& tiers) const {
  uint64_t bytes = 0;
  for (TierUnit* unit : tiers) {
    const auto open = open_.find(unit);
    if (open != open_.end()) bytes += unit->info().slot_bytes - open->second.used;
  }
  return bytes;
}

void OwnSlots::CloseEvictable(TierUnit* unit) {
  const auto open = open_.find(unit);
  if (open != open_.end() && unit->space->PinnedIn(open->second.slot) == 0) CloseIn(unit);
}

OwnSlots::Open* OwnSlots::FindOpen(TierUnit* unit, uint32_t slot, uint64_t slot_generation) {
  const auto found = open_.find(unit);
  const bool is_it = found != open_.end() && found->second.slot == slot && found->second.slot_generation == slot_generation;
  return is_it ? &found->second : nullptr;
}

bool OwnSlots::OpenSlot(TierUnit* unit, uint64_t bytes) {
  CloseIn(unit);
  uint32_t slot = 0;
  if (memory_.Find(unit, kAgentSlotOwner, bytes, MemoryLedger::Use::kWhole, &slot) != MemoryLedger::Found::kReady) return false;
  open_[unit] = Open{slot, unit->space->Assign(slot, kAgentSlotOwner), 0, false};
  return true;
}

bool OwnSlots::Grow(TierUnit* unit, Open& open, uint64_t bytes) {
  if (open.grows) return true;
  const uint64_t doubled_bytes = 2 * unit->space->BackedIn(open.slot);
  open.grows = memory_.Grow(unit, open.slot, std::max(bytes, doubled_bytes),
                            [this, unit, slot = open.slot, slot_generation = open.slot_generation](bool grown) {
                              if (Open* const found = FindOpen(unit, slot, slot_generation); found != nullptr) {
                                found->grows = false;
                                if (!grown) CloseIn(unit);
                              }
                              assignment_.Pump();
                            });
  return open.grows;
}

std::optional<OwnRange> OwnSlots::Take(const std::vector<TierUnit*>& tiers, uint64_t bytes) {
  for (TierUnit* unit : tiers) {
    const uint64_t slot_bytes = unit->info().slot_bytes;
    if (unit->lost || bytes > slot_bytes) continue;
    auto open = open_.find(unit);
    bool is_enough = open != open_.end() && bytes <= slot_bytes - open->second.used;
    if (is_enough && open->second.used + bytes > unit->space->BackedIn(open->second.slot)) {
      is_enough = Grow(unit, open->second, open->second.used + bytes);
      if (is_enough) continue;
    }
    if (!is_enough) {
      if (!OpenSlot(unit, bytes)) continue;
      open = open_.find(unit);
    }
    Open& place = open->second;
    const OwnRange range{unit, place.slot, place.slot_generation, place.used, bytes};
    place.used = EndOf(range);
    unit->space->AddChunk(range.slot);
    if (slot_bytes - place.used < kChunkAlignment) CloseIn(unit);
    return range;
  }
  return std::nullopt;
}

std::optional<std::vector<OwnRange>> OwnSlots::TakeAll(const std::vector<TierUnit*>& tiers, uint64_t bytes) {
  std::vector<OwnRange> ranges;
  memory_.BeginAsking();
  while (bytes > 0) {
    // The largest part that fits a slot of any tier: tiers may be cut differently.
    uint64_t part = 0;
    for (const TierUnit* unit : tiers) part = std::max(part, unit->lost ? 0 : std::min(bytes, unit->info().slot_bytes));
    auto range = part == 0 ? std::nullopt : Take(tiers, part);
    for (const TierUnit* unit : tiers) {
      if (!range.has_value() && !unit->lost) range = Take(tiers, std::min(bytes, unit->info().slot_bytes));
    }
    if (!range.has_value()) {
      GiveBackAll(ranges);
      return std::nullopt;
    }
    bytes -= range->bytes;
    ranges.push_back(*range);
  }
  return ranges;
}

bool OwnSlots::Claim(const OwnRange& range) {
  if (range.unit == nullptr || range.slot >= range.unit->info().slots || range.offset > range.unit->info().slot_bytes ||
      range.bytes > range.unit->info().slot_bytes - range.offset ||
      !range.unit->space->IsCurrent(range.slot, range.slot_generation)) {
    return false;
  }
  range.unit->space->AddChunk(range.slot);
  return true;
}

void OwnSlots::Release(const OwnRange& range, bool pinned) {
  range.unit->space->RemoveChunk(range.slot, pinned);
  const auto open = open_.find(range.unit);
  if (open != open_.end() && open->second.slot == range.slot && range.unit->space->ChunksIn(range.slot) == 0) CloseIn(range.unit);
}

void OwnSlots::GiveBack(const OwnRange& range) {
  Open* const open = FindOpen(range.unit, range.slot, range.slot_generation);
  if (open == nullptr || !open->grows) return Release(range);
  range.unit->space->RemoveChunk(range.slot, /*pinned=*/true);
  if (open->used == EndOf(range)) open->used = range.offset;
}

void OwnSlots::GiveBackAll(const std::vector<OwnRange>& ranges) {
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) GiveBack(*range);
}

void OwnSlots::ReleaseAll(const std::vector<OwnRange>& ranges, bool pinned) {
  for (const OwnRange& range : ranges) Release(range, pinned);
}

}  // namespace kedge
