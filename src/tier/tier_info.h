// What is said of a tier without touching it: in messages, in tables, to people.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace kedge {

enum class TierKind : uint8_t { kMemory = 1, kDirectory = 2 };
const char* TierKindName(TierKind kind);  // "memory", "directory"

struct TierInfo {
  std::string name;
  std::string key;  // as in placement tables: stays the same when tiers are listed in another order
  TierKind kind = TierKind::kMemory;
  std::string path;         // memory: the pool file; directory: the folder of slot files
  uint64_t slot_bytes = 0;  // a multiple of kSlotAlignment
  uint32_t slots = 0;
};

// The tier's folder: where a job's routed files lie, below "files/".
std::string TierFolder(const TierInfo& info);

inline constexpr uint64_t kSlotAlignment = 4096;
inline constexpr uint32_t kSlotsMax = 1u << 20;
// kInvalidArgument when sizes are out of bounds; whoever makes a Tier asks first.
Status ValidateTierInfo(const TierInfo& info);

}  // namespace kedge
