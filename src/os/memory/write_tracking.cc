#include "os/memory/write_tracking.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "os/files/failed_call.h"
#include "os/memory/address_space.h"
#include "os/memory/mapping.h"
#include "os/memory/page_scan.h"

namespace kedge::os {
namespace {

// ---- Of the kernel's interface, what the headers of Debian 12 lack ----
constexpr uint64_t kWriteProtectUnpopulated = 1 << 13;  // UFFD_FEATURE_WP_UNPOPULATED
constexpr uint64_t kWriteProtectAsync = 1 << 15;        // UFFD_FEATURE_WP_ASYNC
constexpr uint64_t kUserModeOnly = 1;                   // UFFD_USER_MODE_ONLY
constexpr uint64_t kProtectMatching = 1 << 0;           // PM_SCAN_WP_MATCHING
constexpr uint64_t kRefuseUntracked = 1 << 1;           // PM_SCAN_CHECK_WPASYNC

constexpr size_t kRangesInScan = 512;

uint64_t AddressOf(const void* data) {
  return reinterpret_cast<uintptr_t>(data);
}

void Append(uint64_t begin, uint64_t end, std::vector<MemoryRange>* ranges) {
  if (begin >= end) return;
  if (!ranges->empty() && AddressOf(ranges->back().begin) + ranges->back().bytes == begin) {
    ranges->back().bytes += end - begin;
  } else {
    ranges->push_back({reinterpret_cast<const std::byte*>(begin), end - begin});
  }
}

Status Lacks(const char* what) {
  return Status(Code::kUnsupported, fmt::format("pages that were written cannot be told: {} ({})", what, std::strerror(errno)));
}

}  // namespace

WriteTracking::WriteTracking(UniqueFd userfault, UniqueFd page_map)
    : userfault_(std::move(userfault)), page_map_(std::move(page_map)), owner_(getpid()) {}

WriteTracking::WriteTracking(WriteTracking&& other) noexcept
    : userfault_(std::move(other.userfault_)),
      page_map_(std::move(other.page_map_)),
      owner_(other.owner_),
      tracked_(std::exchange(other.tracked_, {})) {}

WriteTracking::~WriteTracking() {
  while (!tracked_.empty()) Untrack(reinterpret_cast<const void*>(tracked_.begin()->first));
}

// Both descriptors are of the memory of the process that opened them, wherever they are used.
bool WriteTracking::InChild() const {
  return getpid() != owner_;
}

Result<WriteTracking> WriteTracking::Create() {
  // User mode suffices, since the kernel itself resolves the faults; it needs no privilege.
  UniqueFd userfault(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly)));
  if (!userfault.valid()) return Lacks("userfaultfd is not to be had; a container's seccomp profile may forbid it");
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kWriteProtectAsync | kWriteProtectUnpopulated;
  if (ioctl(userfault.get(), UFFDIO_API, &api) != 0) return Lacks("the kernel has no asynchronous write protection, Linux 6.7");
  UniqueFd page_map(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!page_map.valid()) return Lacks("/proc/self/pagemap cannot be opened");
  WriteTracking tracking(std::move(userfault), std::move(page_map));
  KEDGE_RETURN_IF_ERROR(tracking.ProveItself());
  return tracking;
}

// The answers for memory without page tables have differed between kernels: so what is relied on is tried, in memory large
// enough to have a whole page table.
Status WriteTracking::ProveItself() {
  constexpr size_t kBytes = size_t{4} << 20;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Failed("mmap");
  auto* const bytes = static_cast<std::byte*>(memory);
  const MemoryRange whole{bytes, kBytes}, page{bytes + PageBytes(), PageBytes()};
  std::vector<MemoryRange> written;
  Status status = Track(bytes, kBytes);
  auto expect = [&](const std::vector<MemoryRange>& expected) {
    if (status.ok()) status = TakeWritten(bytes, kBytes, &written);
    if (status.ok() && written != expected) {
      status = Status(Code::kUnsupported, "pages that were written cannot be told: this kernel's answers are not right");
    }
  };
  expect({whole});
  expect({});
  *const_cast<volatile std::byte*>(page.begin) = std::byte{1};
  expect({page});
  if (madvise(memory, kBytes, MADV_DONTNEED) != 0 && status.ok()) status = Failed("madvise(MADV_DONTNEED)");
  expect({whole});
  Untrack(bytes);
  munmap(memory, kBytes);
  return status;
}

Status WriteTracking::Track(const void* data, size_t bytes) {
  if (InChild()) return Status(Code::kFailedPrecondition, "memory of a parent process cannot be tracked");
  const uint64_t page_bytes = PageBytes(), begin = AddressOf(data), end = begin + bytes;
  const Pages pages{(begin + page_bytes - 1) / page_bytes * page_bytes, end / page_bytes * page_bytes};
  if (pages.begin >= pages.end) return Status(Code::kUnsupported, fmt::format("no page lies whole in {} bytes", bytes));
  for (const auto& [address, other] : tracked_) {
    if (pages.begin < other.end && other.begin < pages.end) {
      return Status(Code::kBusy, fmt::format("memory at {:#x} is tracked already", std::max(pages.begin, other.begin)));
    }
  }
  KEDGE_RETURN_IF_ERROR(CheckPrivate(pages.begin, pages.end));
  uffdio_register request{};
  request.range = {pages.begin, pages.end - pages.begin};
  request.mode = UFFDIO_REGISTER_MODE_WP;
  if (ioctl(userfault_.get(), UFFDIO_REGISTER, &request) != 0) {
    const int error = errno;
    if (error == EBUSY) return Status(Code::kBusy, fmt::format("memory at {:#x} has another userfaultfd", pages.begin));
    if (error == ENOSYS || error == EPERM || error == EINVAL) return Lacks("UFFDIO_REGISTER is refused");
    return Failed("UFFDIO_REGISTER");
  }
  tracked_[begin] = pages;
  return Status::Ok();
}

Status WriteTracking::Take(const Pages& pages, std::vector<MemoryRange>* written) const {
  std::array<ScannedRange, kRangesInScan> ranges;
  PageScan scan{};
  scan.struct_bytes = sizeof scan;
  scan.flags = kProtectMatching | kRefuseUntracked;
  scan.end = pages.end;
  scan.ranges = AddressOf(ranges.data());
  scan.ranges_size = ranges.size();
  // Exactly this mask, and no other category: for it alone all kernels tell pages that are not there as written.
  scan.category_mask = scan.return_mask = kIsWritten;
  for (scan.begin = pages.begin; scan.begin < pages.end; scan.begin = scan.scanned_end) {
    const int found = ioctl(page_map_.get(), kPageScan, &scan);
    if (found < 0) {
      if (errno == EPERM) return Status(Code::kMismatch, "it was unmapped, moved or mapped anew while it was tracked");
      if (errno == ENOTTY || errno == ENOSYS) return Lacks("the kernel has no PAGEMAP_SCAN, Linux 6.7");
      return Failed("PAGEMAP_SCAN");
    }
    for (int i = 0; i < found; ++i) Append(ranges[i].begin, ranges[i].end, written);
    if (scan.scanned_end <= scan.begin) return Status(Code::kInternal, "PAGEMAP_SCAN came to no end");
  }
  // The scan passes over what is not mapped without a word; this call finds it, and does nothing else to private memory.
  if (msync(reinterpret_cast<void*>(pages.begin), pages.end - pages.begin, MS_ASYNC) == 0) return Status::Ok();
  if (errno == ENOMEM) return Status(Code::kMismatch, "some of it was unmapped or moved while it was tracked");
  return Failed("msync");
}

Status WriteTracking::TakeWritten(const void* data, size_t bytes, std::vector<MemoryRange>* written) {
  written->clear();
  if (InChild()) return Status(Code::kFailedPrecondition, "memory of a parent process is not told of");
  const uint64_t begin = AddressOf(data), end = begin + bytes;
  const auto tracked = tracked_.find(begin);
  if (tracked == tracked_.end()) return Status(Code::kFailedPrecondition, fmt::format("memory at {:#x} is not tracked", begin));
  const Pages pages = tracked->second;
  if (end < pages.end || end >= pages.end + PageBytes()) {
    return Status(Code::kInvalidArgument, fmt::format("memory at {:#x} is tracked with another size than {}", begin, bytes));
  }
  Append(begin, pages.begin, written);
  Status status = Take(pages, written);
  if (!status.ok()) {
    written->clear();
    Untrack(data);
    return status.WithContext(fmt::format("memory at {:#x}, {} bytes", begin, bytes));
  }
  Append(pages.end, end, written);
  return status;
}

void WriteTracking::Untrack(const void* data) {
  const auto tracked = tracked_.find(AddressOf(data));
  if (tracked == tracked_.end()) return;
  uffdio_range range{tracked->second.begin, tracked->second.end - tracked->second.begin};
  tracked_.erase(tracked);
  // Fails where the memory is gone, and its tracking with it; what is mapped there now is not this object's.
  if (!InChild()) (void)ioctl(userfault_.get(), UFFDIO_UNREGISTER, &range);
}

}  // namespace kedge::os
