#include "os/memory/held_writes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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

constexpr uint64_t kHoldsUnpopulated = 1 << 13;  // UFFD_FEATURE_WP_UNPOPULATED, which the headers of Debian 12 lack
constexpr uint64_t kIsHuge = 1 << 6;             // PAGE_IS_HUGE
constexpr int kAwaitMilliseconds = 100;

uint64_t AddressIn(const std::byte* data) {
  return reinterpret_cast<uintptr_t>(data);
}

uffdio_range RangeOf(const MemoryRange& memory) {
  return {AddressIn(memory.begin), memory.bytes};
}

Status CannotHold(const char* what) {
  return Status(Code::kUnsupported, fmt::format("writes cannot be held back: {} ({})", what, std::strerror(errno)));
}

// One that holds the kernel's writes, too: a program's read(2) into memory that is held would fail with one that does not.
UniqueFd OpenUserfault() {
  UniqueFd userfault(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
  if (userfault.valid()) return userfault;
  const int error = errno;
  const UniqueFd device(open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  if (device.valid()) userfault = UniqueFd(ioctl(device.get(), USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK));
  if (!userfault.valid()) errno = error;
  return userfault;
}

// The pages of the category, ascending.
Result<std::vector<MemoryRange>> Scan(const MemoryRange& range, uint64_t category) {
  std::vector<MemoryRange> found_ranges;
  const UniqueFd page_map(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!page_map.valid()) return CannotHold("/proc/self/pagemap cannot be opened");
  std::array<ScannedRange, 64> ranges;
  PageScan scan{};
  scan.struct_bytes = sizeof scan;
  scan.end = AddressIn(range.end());
  scan.ranges = reinterpret_cast<uintptr_t>(ranges.data());
  scan.ranges_size = ranges.size();
  scan.category_mask = scan.return_mask = category;
  for (scan.begin = AddressIn(range.begin); scan.begin < scan.end; scan.begin = scan.scanned_end) {
    const int found = ioctl(page_map.get(), kPageScan, &scan);
    if (found < 0) return CannotHold("the kernel has no PAGEMAP_SCAN, Linux 6.7");
    for (int i = 0; i < found; ++i) {
      found_ranges.push_back({range.begin + (ranges[i].begin - AddressIn(range.begin)), ranges[i].end - ranges[i].begin});
    }
    if (scan.scanned_end <= scan.begin) return Status(Code::kInternal, "PAGEMAP_SCAN came to no end");
  }
  return found_ranges;
}

}  // namespace

HeldWrites::~HeldWrites() {
  LetAll();
}

Result<HeldWrites> HeldWrites::Create() {
  HeldWrites held(OpenUserfault());
  if (!held.userfault_.valid()) {
    return CannotHold(
        "userfaultfd for the kernel's writes needs vm.unprivileged_userfaultfd = 1, /dev/userfaultfd or "
        "CAP_SYS_PTRACE, and a seccomp profile that allows it");
  }
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_REMOVE | kHoldsUnpopulated;
  if (ioctl(held.userfault_.get(), UFFDIO_API, &api) != 0) return CannotHold("the kernel has not what it takes, Linux 6.7");
  return held;
}

// What is relied on is tried: that pages are held, those too that are not there yet, and that memory can be read so.
Status HeldWrites::Probe() {
  KEDGE_ASSIGN_OR_RETURN(HeldWrites held, Create());
  const size_t bytes = 2 * PageBytes();
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Failed("mmap");
  auto* const data = static_cast<std::byte*>(memory);
  data[0] = std::byte{1};
  Status status = held.Add(data, bytes).status();
  if (status.ok()) status = held.Hold();
  if (status.ok()) {
    const auto open = Scan({data, bytes}, kIsWritten);
    std::byte read{};
    status = open.status();
    if (status.ok() && !open->empty()) status = Status(Code::kUnsupported, "writes cannot be held back: this kernel does not");
    if (status.ok() && !(Read(data, &read, 1) && read == data[0])) status = CannotHold("process_vm_readv is refused");
  }
  held.LetAll();
  munmap(memory, bytes);
  return status;
}

Result<MemoryRange> HeldWrites::Add(const void* data, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data), page_bytes = PageBytes();
  const uint64_t first = (begin + page_bytes - 1) / page_bytes * page_bytes, end = (begin + bytes) / page_bytes * page_bytes;
  if (first >= end) return Status(Code::kUnsupported, fmt::format("no page lies whole in {} bytes", bytes));
  const MemoryRange pages{static_cast<const std::byte*>(data) + (first - begin), end - first};
  for (const MemoryRange& other : added_) {
    if (pages.begin < other.end() && other.begin < pages.end()) {
      return Status(Code::kBusy, fmt::format("memory at {:#x} is in another region, too", first));
    }
  }
  KEDGE_RETURN_IF_ERROR(CheckPrivate(first, end));
  uffdio_register request{};
  request.range = RangeOf(pages);
  request.mode = UFFDIO_REGISTER_MODE_WP;
  if (ioctl(userfault_.get(), UFFDIO_REGISTER, &request) != 0) {
    if (errno == EBUSY) return Status(Code::kBusy, fmt::format("memory at {:#x} has another userfaultfd", first));
    return CannotHold("UFFDIO_REGISTER is refused");
  }
  added_.push_back(pages);
  return pages;
}

Status HeldWrites::Hold() {
  for (const MemoryRange& pages : added_) {
    uffdio_writeprotect request{RangeOf(pages), UFFDIO_WRITEPROTECT_MODE_WP};
    if (ioctl(userfault_.get(), UFFDIO_WRITEPROTECT, &request) != 0) return Failed("UFFDIO_WRITEPROTECT");
  }
  return Status::Ok();
}

bool HeldWrites::Next(Happened* happened) {
  uffd_msg message{};
  if (read(userfault_.get(), &message, sizeof message) != sizeof message) return false;
  if (message.event == UFFD_EVENT_PAGEFAULT) {
    const uint64_t page = message.arg.pagefault.address / PageBytes() * PageBytes();
    *happened = {Kind::kHeld, page, page + PageBytes()};
  } else {
    *happened = {Kind::kGivenBack, message.arg.remove.start, message.arg.remove.end};
  }
  return true;
}

void HeldWrites::Await() const {
  pollfd waits{userfault_.get(), POLLIN, 0};
  (void)poll(&waits, 1, kAwaitMilliseconds);
}

Status HeldWrites::LetThrough(const MemoryRange& range) {
  uffdio_writeprotect request{RangeOf(range), 0};
  if (ioctl(userfault_.get(), UFFDIO_WRITEPROTECT, &request) == 0) return Status::Ok();
  if (errno == EAGAIN) return Status(Code::kBusy, "memory is being given back");
  if (errno == ENOENT) {
    return Status(Code::kMismatch, fmt::format("memory at {:#x} was unmapped, moved or mapped anew", AddressIn(range.begin)));
  }
  return Failed("UFFDIO_WRITEPROTECT");
}

void HeldWrites::Wake(const MemoryRange& range) {
  uffdio_range request = RangeOf(range);
  (void)ioctl(userfault_.get(), UFFDIO_WAKE, &request);
}

void HeldWrites::LetAll() {
  if (!userfault_.valid()) return;
  for (const MemoryRange& pages : added_) {
    uffdio_range request = RangeOf(pages);
    // Where the memory has holes by now, or other memory lies there, what is left of it is found mapping by mapping.
    if (ioctl(userfault_.get(), UFFDIO_UNREGISTER, &request) != 0) {
      (void)ForEachMapped([&](const Mapped& mapped) {
        const uint64_t begin = std::max(mapped.begin, AddressIn(pages.begin)), end = std::min(mapped.end, AddressIn(pages.end()));
        uffdio_range part{begin, end - begin};
        if (begin < end) (void)ioctl(userfault_.get(), UFFDIO_UNREGISTER, &part);
        return true;
      });
    }
    Wake(pages);
  }
  added_.clear();
  userfault_ = UniqueFd();
}

Result<std::vector<MemoryRange>> HeldWrites::HugePages(const MemoryRange& range) {
  return Scan(range, kIsHuge);
}

bool HeldWrites::Read(const std::byte* from, std::byte* to, size_t bytes) {
  const iovec local{to, bytes}, remote{const_cast<std::byte*>(from), bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

}  // namespace kedge::os
