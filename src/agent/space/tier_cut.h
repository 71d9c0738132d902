// How a tier is cut into slots: computed for a new one, and kept on file (tiers/NAME/layout in the run folder) so that
// a successor agent cuts it alike. The file is text, "slot_bytes BYTES slots COUNT full COUNT", and is believed only as far
// as a tier can be cut at all.
//
// A memory tier has more slots than its capacity backs as a whole: each session has one that is backed a little, for its small
// chunks and image records, and the last chunk of an image seldom fills its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tier/tier_info.h"

namespace kedge {

struct TierCut {
  uint64_t slot_bytes = 0;
  uint32_t slots = 0;
  uint32_t full_slots = 0;  // that the capacity backs as a whole
  friend bool operator==(const TierCut&, const TierCut&) = default;
};

// The default size of the pool: the least of a quarter of memory, half of what is free in the
// memory file system, and half of what the cgroup leaves.
uint64_t DefaultPoolBytes(uint64_t memory_bytes, uint64_t free_bytes, uint64_t cgroup_left_bytes);

// Slots of `chunk_bytes` when given; otherwise of 64 MiB, halved until 16 fit, down to 1 MiB. No slot when not one
// fits.
TierCut CutTier(TierKind kind, uint64_t capacity_bytes, std::optional<uint64_t> chunk_bytes);

// The content of the layout file, and back; nothing unless it is exactly what FormatTierCut makes of a possible cut.
std::string FormatTierCut(const TierCut& cut);
std::optional<TierCut> ParseTierCut(std::string_view text);

}  // namespace kedge
