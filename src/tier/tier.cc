#include "tier/tier.h"

#include <fmt/format.h>

#include "os/files/files.h"

namespace kedge {

const char* TierKindName(TierKind kind) {
  return kind == TierKind::kMemory ? "memory" : "directory";
}

std::string TierFolder(const TierInfo& info) {
  return info.kind == TierKind::kMemory ? os::ParentPath(info.path) : info.path;
}

Status ValidateTierInfo(const TierInfo& info) {
  if (info.slot_bytes == 0 || info.slot_bytes % kSlotAlignment != 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("tier {}: slots of {} bytes are not a multiple of {}", info.name, info.slot_bytes, kSlotAlignment));
  }
  if (info.slots == 0 || info.slots > kSlotsMax || info.slot_bytes > INT64_MAX / info.slots) {
    return Status(Code::kInvalidArgument, fmt::format("tier {}: {} slots of {} bytes; allowed are 1 to {} slots", info.name,
                                                      info.slots, info.slot_bytes, kSlotsMax));
  }
  return Status::Ok();
}

Status Tier::CheckRange(uint32_t slot, uint64_t offset, uint64_t bytes) const {
  if (slot < info_.slots && offset <= info_.slot_bytes && bytes <= info_.slot_bytes - offset) return Status::Ok();
  return Status(Code::kInvalidArgument,
                fmt::format("tier {}: range of {} bytes at {} of slot {} is outside of {} slots of {} bytes", info_.name, bytes,
                            offset, slot, info_.slots, info_.slot_bytes));
}

}  // namespace kedge
