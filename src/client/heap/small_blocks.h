// Blocks of up to 16 KiB, in one area of a heap: what a program with many small objects allocates.
//
// The area is cut into runs of 64 KiB, and each run into slots of one size. What is in use is noted in the area itself: the first
// run of each 128 holds the descriptors of these. So the area's bytes are all that a version needs, and whoever has them back
// (Adopt) goes on from there. What is kept outside the area only finds free slots, and follows from it.
//
// The application may overwrite the descriptors: every number that is read there is checked, and a wrong one is kCorrupt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "base/status.h"

namespace kedge::client {

inline constexpr size_t kSmallBytesMax = size_t{16} << 10;

// Of a block of so many bytes (at most kSmallBytesMax), what it takes: a slot begins at a multiple of the greatest power of two
// that divides `bytes`.
size_t SlotBytes(size_t bytes);

// Not thread safe.
class SmallBlocks {
 public:
  // What the area's owner does for it.
  struct Memory {
    // The area gets so many bytes, a multiple of 64 KiB, from its begin on: new ones read as zeros.
    std::function<Status(uint64_t bytes)> resize;
    // Memory at this offset may go; what comes in its place reads as zeros.
    std::function<void(uint64_t offset, uint64_t bytes)> clear;
  };
  // An empty area, which begins at a multiple of 64 KiB.
  SmallBlocks(std::byte* area, Memory memory) : area_(area), memory_(std::move(memory)) {}

  // The area has so many bytes, with what some SmallBlocks has left there. kCorrupt: it has not.
  Status Adopt(uint64_t bytes);
  // The area has none.
  void Forget();

  // Not zeroed. `bytes` is at most kSmallBytesMax. kNoSpace: as memory's resize.
  Result<void*> Allocate(size_t bytes);
  Status Free(void* block);
  // What the block has room for. kInvalidArgument: there is none at this address.
  Result<size_t> BytesOf(const void* block) const;

  uint64_t area_bytes() const { return uint64_t{runs_} * kRunBytes; }
  uint64_t blocks() const { return blocks_; }

 private:
  static constexpr uint64_t kRunBytes = uint64_t{64} << 10;
  static constexpr size_t kSlotBytesMin = 32;
  struct Run {
    uint32_t slot_bytes = 0;  // 0: no slots yet, the run is free
    uint32_t used = 0;
    uint64_t taken[kRunBytes / kSlotBytesMin / 64] = {};  // a bit for each slot
  };
  struct Place {
    uint32_t run = 0;
    uint32_t slot = 0;
  };

  Run* At(uint32_t run) const;
  static uint32_t Slots(const Run& run) { return static_cast<uint32_t>(kRunBytes / run.slot_bytes); }
  static Status CheckRun(const Run& run);
  Result<Place> Find(const void* block) const;
  // A free run, of which `slot_bytes` are cut.
  Result<uint32_t> Open(uint32_t slot_bytes);
  Status Grow();
  void Release(uint32_t run);
  // Gives back free runs at the end, when they are many.
  void Trim();

  std::byte* area_;
  Memory memory_;
  uint32_t runs_ = 0;
  uint64_t blocks_ = 0;
  std::map<uint32_t, std::set<uint32_t>> open_;  // by size of slot: the runs with free slots
  std::set<uint32_t> free_;                      // runs without slots
};

}  // namespace kedge::client
