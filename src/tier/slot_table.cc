#include "tier/slot_table.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "base/crc32c.h"
#include "os/files/file_system.h"
#include "os/files/files.h"
#include "os/files/private_files.h"

namespace kedge {
namespace {

constexpr uint64_t kMagic = 0x7374736c2d67646bULL;  // "kdg-slts"
constexpr uint64_t kGenerationMask = (uint64_t{1} << 36) - 1;

struct Header {
  uint64_t magic;
  uint64_t slot_bytes;
  uint32_t slots;
  uint32_t boot_crc32c;  // of the boot id
  uint64_t reserved[5];
};
static_assert(sizeof(Header) == 64);

Header MakeHeader(uint32_t slots, uint64_t slot_bytes, const std::string& boot_id) {
  return Header{kMagic, slot_bytes, slots, crc32c::Compute(boot_id.data(), boot_id.size()), {}};
}

uint64_t Encode(const SlotEntry& entry) {
  return static_cast<uint64_t>(entry.state) | uint64_t{entry.owner} << 4 | (entry.generation & kGenerationMask) << 28;
}

SlotEntry Decode(uint64_t word) {
  return SlotEntry{static_cast<SlotState>(word & 0xf), static_cast<uint32_t>(word >> 4) & kSlotOwnersMax, word >> 28};
}

bool IsSound(uint64_t word) {
  SlotEntry entry = Decode(word);
  return (word & 0xf) <= static_cast<uint64_t>(SlotState::kCached) && (entry.state == SlotState::kAssigned) == (entry.owner != 0);
}

}  // namespace

std::atomic<uint64_t>& SlotTable::Word(uint32_t slot) const {
  KEDGE_CHECK(slot < slots_);
  return reinterpret_cast<std::atomic<uint64_t>*>(mapping_.data() + sizeof(Header))[slot];
}

Result<SlotTable> SlotTable::Open(const std::string& path, uint32_t slots, uint64_t slot_bytes, const std::string& boot_id,
                                  bool discard, bool* fresh) {
  os::FileSystem& fs = os::PrivateFileSystem();
  const size_t bytes = sizeof(Header) + size_t{slots} * sizeof(uint64_t);
  const Header expected = MakeHeader(slots, slot_bytes, boot_id);
  *fresh = false;
  if (!discard) {
    auto mapping = os::SharedMapping::Open(path, bytes);
    if (mapping.ok() && std::memcmp(mapping->data(), &expected, sizeof(expected)) == 0) {
      SlotTable table(std::move(*mapping), slots);
      bool sound = true;
      for (uint32_t slot = 0; slot < slots; ++slot) sound = sound && IsSound(table.Word(slot).load());
      if (sound) return table;
    }
  }
  *fresh = true;
  // Made under another name, so that a file of this name is always whole.
  const std::string temporary = os::TemporaryPath(path, "slots");
  KEDGE_ASSIGN_OR_RETURN(auto mapping, os::SharedMapping::Create(temporary, bytes));
  std::memcpy(mapping.data(), &expected, sizeof(expected));
  Status renamed = fs.Rename(temporary, path);
  if (!renamed.ok()) {
    (void)fs.Unlink(temporary);
    return renamed;
  }
  return SlotTable(std::move(mapping), slots);
}

SlotEntry SlotTable::Get(uint32_t slot) const {
  return Decode(Word(slot).load(std::memory_order_relaxed));
}

uint64_t SlotTable::Assign(uint32_t slot, uint32_t owner) {
  SlotEntry entry = Get(slot);
  KEDGE_CHECK(entry.state == SlotState::kFree && owner != 0 && owner <= kSlotOwnersMax);
  entry = SlotEntry{SlotState::kAssigned, owner, (entry.generation + 1) & kGenerationMask};
  Word(slot).store(Encode(entry), std::memory_order_release);
  return entry.generation;
}

void SlotTable::SetState(uint32_t slot, SlotState state) {
  KEDGE_CHECK(state != SlotState::kAssigned);
  Word(slot).store(Encode(SlotEntry{state, 0, Get(slot).generation}), std::memory_order_release);
}

}  // namespace kedge
