// Holds writes to private memory back until they are let through: synchronous write protection (userfaultfd), Linux 6.7.
//
// Whoever writes to a page that is held sleeps, any thread of the process and the kernel on its behalf (read(2) into the memory),
// until the page's range is let through. So somebody must take what happens (Next) from Hold to LetAll, on a thread that never
// writes there. Reads are not held. Huge pages stay whole as long as they are let through whole.
//
// What becomes of the memory meanwhile is found out: a page that was given back (MADV_DONTNEED, MADV_FREE) is told by Next,
// memory that was unmapped, moved or mapped anew by LetThrough. A forked child's memory is its own: no write of it is held, and
// its copy of this object must be left alone. What a device writes without the processor is not held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "os/files/unique_fd.h"
#include "os/memory/memory_range.h"

namespace kedge::os {

class HeldWrites {
 public:
  enum class Kind : uint8_t { kHeld, kGivenBack };
  struct Happened {
    Kind kind = Kind::kHeld;
    uint64_t begin = 0;  // kHeld: of the page
    uint64_t end = 0;
  };

  // kUnsupported with the reason, where the kernel, or what this process may call, does not do: found by trying it on memory of
  // its own. Once for a process is enough.
  static Status Probe();
  static Result<HeldWrites> Create();

  HeldWrites(HeldWrites&&) noexcept = default;
  HeldWrites& operator=(HeldWrites&&) = delete;
  ~HeldWrites();

  // Which pages are to be held: those that lie whole in the memory. kUnsupported: memory that is shared, of a file, or read-only,
  // or no page of it is whole. kBusy: some of it was added already, or has another userfaultfd. kInvalidArgument: not all of it
  // is mapped.
  Result<MemoryRange> Add(const void* data, size_t bytes);
  // From its return on, writes to all that was added are held. After an error some may be: LetAll.
  Status Hold();
  // The next thing that has happened; false: nothing has, up to now.
  bool Next(Happened* happened);
  // Sleeps until something has happened, for a tenth of a second at most.
  void Await() const;
  // Lets all writes to the range through, a multiple of pages. kBusy: memory is being given back, take what has happened first.
  // kMismatch: it was unmapped, moved or mapped anew.
  Status LetThrough(const MemoryRange& range);
  // Whoever still waits there for what was let through goes on.
  void Wake(const MemoryRange& range);
  // Lets go of everything, also of what can not be let through any more. The object is done with.
  void LetAll();

  // The parts of the range that are huge pages now, ascending.
  static Result<std::vector<MemoryRange>> HugePages(const MemoryRange& range);
  // Copies memory that another thread may unmap meanwhile: false, then, and what has arrived is not to be used.
  static bool Read(const std::byte* from, std::byte* to, size_t bytes);

 private:
  explicit HeldWrites(UniqueFd userfault) : userfault_(std::move(userfault)) {}

  UniqueFd userfault_;
  std::vector<MemoryRange> added_;
};

}  // namespace kedge::os
