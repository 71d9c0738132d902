#include "agent/space/tier_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "session/config_keys.h"

namespace kedge {
namespace {
constexpr uint32_t kWantedSlots = 16;
// Of a memory tier, backed in part: for each full one, and at most. A slot costs the agent some bytes, and address space.
constexpr uint32_t kPartialSlotsEach = 3;
constexpr uint32_t kPartialSlotsMax = 1024;
}  // namespace

uint64_t DefaultPoolBytes(uint64_t memory_bytes, uint64_t free_bytes, uint64_t cgroup_left_bytes) {
  return std::min({memory_bytes / 4, free_bytes / 2, cgroup_left_bytes / 2});
}

TierCut CutTier(TierKind kind, uint64_t capacity_bytes, std::optional<uint64_t> chunk_bytes) {
  TierCut cut;
  cut.slot_bytes = chunk_bytes.value_or(kChunkBytesDefault);
  if (!chunk_bytes.has_value()) {
    while (cut.slot_bytes > kChunkBytesMin && capacity_bytes / cut.slot_bytes < kWantedSlots) cut.slot_bytes /= 2;
  }
  cut.full_slots = static_cast<uint32_t>(std::min<uint64_t>(capacity_bytes / cut.slot_bytes, kSlotsMax));
  const uint64_t partial_slots =
      kind == TierKind::kMemory ? std::min<uint64_t>(uint64_t{kPartialSlotsEach} * cut.full_slots, kPartialSlotsMax) : 0;
  cut.slots = static_cast<uint32_t>(std::min<uint64_t>(cut.full_slots + partial_slots, kSlotsMax));
  return cut;
}

std::string FormatTierCut(const TierCut& cut) {
  return fmt::format("slot_bytes {} slots {} full {}\n", cut.slot_bytes, cut.slots, cut.full_slots);
}

std::optional<TierCut> ParseTierCut(std::string_view text) {
  TierCut cut;
  const std::string terminated(text);
  const int read =
      std::sscanf(terminated.c_str(), "slot_bytes %20lu slots %10u full %10u", &cut.slot_bytes, &cut.slots, &cut.full_slots);
  // sscanf takes other spellings, and wraps what is too large.
  if (read != 3 || FormatTierCut(cut) != text) return std::nullopt;
  if (cut.full_slots == 0 || cut.full_slots > cut.slots) return std::nullopt;
  TierInfo info;
  info.slot_bytes = cut.slot_bytes;
  info.slots = cut.slots;
  if (!ValidateTierInfo(info).ok()) return std::nullopt;
  return cut;
}

}  // namespace kedge
