#include "agent/space/tier_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "session/config_keys.h"
#include "tier/tier_info.h"

namespace kedge {
namespace {
constexpr uint32_t kWantedSlots = 16;
}

uint64_t DefaultPoolBytes(uint64_t memory_bytes, uint64_t free_bytes, uint64_t cgroup_left_bytes) {
  return std::min({memory_bytes / 4, free_bytes / 2, cgroup_left_bytes / 2});
}

TierCut CutTier(uint64_t capacity_bytes, std::optional<uint64_t> chunk_bytes) {
  TierCut cut;
  cut.slot_bytes = chunk_bytes.value_or(kChunkBytesDefault);
  if (!chunk_bytes.has_value()) {
    while (cut.slot_bytes > kChunkBytesMin && capacity_bytes / cut.slot_bytes < kWantedSlots) cut.slot_bytes /= 2;
  }
  cut.slots = static_cast<uint32_t>(std::min<uint64_t>(capacity_bytes / cut.slot_bytes, kSlotsMax));
  return cut;
}

std::string FormatTierCut(const TierCut& cut) {
  return fmt::format("slot_bytes {} slots {}\n", cut.slot_bytes, cut.slots);
}

std::optional<TierCut> ParseTierCut(std::string_view text) {
  TierCut cut;
  const std::string terminated(text);
  if (std::sscanf(terminated.c_str(), "slot_bytes %20lu slots %10u", &cut.slot_bytes, &cut.slots) != 2) return std::nullopt;
  // sscanf takes other spellings, and wraps what is too large.
  if (FormatTierCut(cut) != text) return std::nullopt;
  TierInfo info;
  info.slot_bytes = cut.slot_bytes;
  info.slots = cut.slots;
  if (!ValidateTierInfo(info).ok()) return std::nullopt;
  return cut;
}

}  // namespace kedge
