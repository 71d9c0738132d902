// The agent's private truth about the slots of one tier: a file that only the agent maps, one 64-bit word for each slot.
//
// A slot's state, owner and generation change together in one store, so that an agent killed at any instruction leaves
// either the old word or the new one. The generation counts the slot's uses: it grows with every assignment, so that a
// placement which outlived its slot is told from a valid one. The file belongs to one boot and one cut of the tier:
// what another boot left (a directory tier on a disk) was never synced and is not believed.
//
// Threads: the agent's event loop only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "os/memory/mapping.h"

namespace kedge {

enum class SlotState : uint8_t {
  kFree = 0,
  kAssigned = 1,  // to a session: open for its chunks
  kPinned = 2,    // holds chunks that are owed a level or are being read
  kCached = 3,    // holds chunks that may go
};

struct SlotEntry {
  SlotState state = SlotState::kFree;
  uint32_t owner = 0;       // session id, below 2^24; 0 unless assigned
  uint64_t generation = 0;  // below 2^36; 0: never used
  friend bool operator==(const SlotEntry&, const SlotEntry&) = default;
};

inline constexpr uint32_t kSlotOwnersMax = (1u << 24) - 1;

class SlotTable {
 public:
  // Takes over the file at `path` when it has this cut and boot and its checks hold, otherwise begins a new one with all
  // slots free, as also when `discard`. `fresh` says which.
  static Result<SlotTable> Open(const std::string& path, uint32_t slots, uint64_t slot_bytes, const std::string& boot_id,
                                bool discard, bool* fresh);

  uint32_t slots() const { return slots_; }
  // REQUIRES: slot < slots().
  SlotEntry Get(uint32_t slot) const;
  // Gives the slot to `owner` under its next generation, which is returned. REQUIRES: it is free.
  uint64_t Assign(uint32_t slot, uint32_t owner);
  // Any other change of state; owner becomes 0, the generation stays.
  void SetState(uint32_t slot, SlotState state);

 private:
  SlotTable(os::SharedMapping mapping, uint32_t slots) : mapping_(std::move(mapping)), slots_(slots) {}
  std::atomic<uint64_t>& Word(uint32_t slot) const;

  os::SharedMapping mapping_;
  uint32_t slots_ = 0;
};

}  // namespace kedge
