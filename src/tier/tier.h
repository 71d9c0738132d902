// A tier: node-local storage cut into slots of equal size, each for one chunk (or several small ones).
//
// The interface is about bytes and space only: which slot belongs to whom is the agent's (slot_table.h, slot_space.h).
// Two kinds: a memory tier is one pool file in a memory file system, mapped by client and agent; a directory tier is a
// folder with one file for each slot. The agent creates a tier, clients attach to it; both then read and write slots
// alike. Two processes never write the same slot at once: that is what assignment is for.
//
// Threads: all functions may be called from several threads at once, on different slots or disjoint ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "os/files/direct_io.h"
#include "os/files/file_system.h"
#include "os/files/unique_fd.h"
#include "tier/tier_info.h"

namespace kedge {

class Tier {
 public:
  virtual ~Tier() = default;
  const TierInfo& info() const { return info_; }

  // Where the slot lies in this process's memory, or null (a directory tier). The agent reads small things through Read
  // and not here: a file that somebody cut short would end it with SIGBUS.
  virtual std::byte* SlotMemory(uint32_t slot) = 0;

  // Whole ranges. kInvalidArgument when the range is not inside the slot; kNoSpace, kIo from the device; Read says
  // kCorrupt when the file is shorter than it must be.
  virtual Status Write(uint32_t slot, uint64_t offset, const void* data, uint64_t bytes) = 0;
  virtual Status Read(uint32_t slot, uint64_t offset, void* data, uint64_t bytes) = 0;

  // Makes sure that the range's space is there, so that a write to it finds room. kNoSpace when not. Costs the first time.
  virtual Status Reserve(uint32_t slot, uint64_t offset, uint64_t bytes) = 0;
  // The same, and makes its pages in memory, large ones where they are to be had: whoever writes there first then does not pay
  // for them. Content stays.
  virtual Status Prepare(uint32_t slot, uint64_t offset, uint64_t bytes) { return Reserve(slot, offset, bytes); }
  Status ReserveAll(uint32_t slot) { return Reserve(slot, 0, info_.slot_bytes); }
  // Gives the slot's space back, and its content with it. A directory tier keeps it: what it has is a ceiling, not a claim.
  virtual Status Release(uint32_t slot) = 0;
  // Bytes of space that the slots have now; of a directory tier 0.
  virtual Result<uint64_t> SpaceBytes() = 0;
  // Of these, what has been written in the slot, as far as that can be told. More may be reserved.
  virtual uint64_t WrittenBytes(uint32_t) { return 0; }
  // Faults `bytes` of the slot into this process's page tables (a memory tier; otherwise nothing), off the blocked path.
  virtual Status Populate(uint32_t slot, uint64_t offset, uint64_t bytes) = 0;

  // kUnavailable when the pool file or the folder was deleted or replaced under us: a lost tier. Open handles go on
  // working on what is left, so that what has been captured may still be flushed.
  virtual Status CheckPresent() = 0;
  // Deletes the tier's files. The object may be used no more.
  virtual Status Remove() = 0;

  // The pool file of a memory tier, -1 for a directory tier. Stays the tier's.
  virtual int descriptor() const { return -1; }

 protected:
  explicit Tier(TierInfo info) : info_(std::move(info)) {}
  Status CheckRange(uint32_t slot, uint64_t offset, uint64_t bytes) const;

 private:
  const TierInfo info_;
};

// The agent's: makes what is missing (folder 0700, files 0600), takes over what a predecessor left when its size fits;
// `fresh` says whether the slots' former content is gone. A memory pool has its full size at once, but its space only as
// slots are reserved.
struct CreatedTier {
  std::unique_ptr<Tier> tier;
  bool fresh = false;
};
Result<CreatedTier> CreateMemoryTier(os::FileSystem& fs, const TierInfo& info);
// `engine`: how large ranges go to the device; kAuto is io_uring where the kernel has it.
using DirectEngine = os::DirectIoOptions::Engine;
Result<CreatedTier> CreateDirectoryTier(os::FileSystem& fs, const TierInfo& info, DirectEngine engine = DirectEngine::kAuto);

// A client's: `pool` is the descriptor that came with Welcome; a directory tier is found by its path.
Result<std::unique_ptr<Tier>> AttachMemoryTier(os::UniqueFd pool, const TierInfo& info);
Result<std::unique_ptr<Tier>> AttachDirectoryTier(os::FileSystem& fs, const TierInfo& info,
                                                  DirectEngine engine = DirectEngine::kAuto);

}  // namespace kedge
