// Which pages of private memory have been written: asynchronous write protection (userfaultfd) and PAGEMAP_SCAN, both since
// Linux 6.7.
//
// A take lists the pages written since the take before and protects them again, in one step for each page: a write during a take
// is in its list or in that of the next one, by whichever thread, and by the kernel too (read(2) into the memory). The kernel
// lifts the protection at a page's first write; nobody is stopped, and there is no handler. Huge pages are told whole until they
// are written, and split by that. Memory that is given back (MADV_DONTNEED) counts as written.
//
// What a device writes without the processor (RDMA, buffers that io_uring or a driver keeps) is not seen.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/status.h"
#include "os/files/unique_fd.h"
#include "os/memory/memory_range.h"

namespace kedge::os {

// One thread at a time. A forked child has the object, but nothing of what it does is of the child's memory: its calls fail, and
// its destructor leaves the parent's tracking as it is. The child's own writes are not its parent's.
class WriteTracking {
 public:
  // kUnsupported with the reason, where the kernel, or what this process may call, does not do: found by trying it on memory
  // of its own.
  static Result<WriteTracking> Create();

  WriteTracking(WriteTracking&&) noexcept;
  WriteTracking& operator=(WriteTracking&&) = delete;
  ~WriteTracking();

  // Begins to track the memory; until the first take all of it counts as written. kUnsupported: memory that is shared, of a file,
  // or read-only, or no page of it is whole. kBusy: some of it is tracked already, here or by another user of userfaultfd.
  // kInvalidArgument: not all of it is mapped.
  Status Track(const void* data, size_t bytes);

  // Replaces `written` by the parts of the memory that may have been written since the last take: ascending, not adjacent. Bytes
  // that share a page with other memory are always among them. kFailedPrecondition: it is not tracked.
  // Any other error (the memory was unmapped, moved or mapped anew since) leaves `written` empty, and the memory tracked no
  // longer: all of it counts as written.
  Status TakeWritten(const void* data, size_t bytes, std::vector<MemoryRange>* written);

  // No-op for what is not tracked. The memory may be gone.
  void Untrack(const void* data);

 private:
  struct Pages {  // the whole ones of a tracked memory
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  WriteTracking(UniqueFd userfault, UniqueFd page_map);
  bool InChild() const;
  Status ProveItself();
  Status Take(const Pages& pages, std::vector<MemoryRange>* written) const;

  UniqueFd userfault_;
  UniqueFd page_map_;
  pid_t owner_;
  std::map<uint64_t, Pages> tracked_;  // by the address of the memory
};

}  // namespace kedge::os
