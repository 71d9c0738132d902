// See reserved_range.h.
#include "os/memory/reserved_range.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <utility>

#include "os/memory/address_space.h"

namespace kedge::os {
namespace {

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

std::string DescribeMapped(const Mapped& mapped) {
  const std::string path = mapped.path.empty() ? "memory without a name" : std::string(mapped.path);
  return fmt::format("{} at {:#x} to {:#x} ({})", path, mapped.begin, mapped.end, mapped.permissions);
}

// The first mapping that reaches into the range.
std::string WhatLiesIn(uint64_t begin, uint64_t end) {
  std::string found = "something";
  const Status status = ForEachMapped([&](const Mapped& mapped) {
    if (mapped.end <= begin) return true;
    if (mapped.begin < end) found = DescribeMapped(mapped);
    return false;
  });
  return status.ok() ? found : fmt::format("{} ({})", found, status.message());
}

Status MapReserved(uint64_t address, uint64_t bytes) {
  void* const wanted = reinterpret_cast<void*>(address);
  const std::string range = fmt::format("the addresses {:#x} to {:#x}", address, address + bytes);
  void* const mapped = mmap(wanted, bytes, PROT_NONE, kReserved | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped == wanted) return Status::Ok();
  // Before Linux 4.17 the address is only a wish.
  if (mapped != MAP_FAILED) munmap(mapped, bytes);
  if (mapped != MAP_FAILED || errno == EEXIST) {
    return Status(Code::kAlreadyExists, fmt::format("{} are taken: {} lies there", range, WhatLiesIn(address, address + bytes)));
  }
  const bool is_limit = errno == ENOMEM;
  return Status(is_limit ? Code::kNoSpace : Code::kInvalidArgument,
                fmt::format("{} cannot be reserved{}: {}", range,
                            is_limit ? " (more than RLIMIT_AS lets this process have, or beyond what the processor has)" : "",
                            Status::FromErrno(errno, "mmap").message()));
}

}  // namespace

Result<ReservedRange> ReservedRange::At(uint64_t address, uint64_t bytes) {
  KEDGE_RETURN_IF_ERROR(MapReserved(address, bytes));
  return ReservedRange(reinterpret_cast<std::byte*>(address), bytes);
}

ReservedRange::ReservedRange(ReservedRange&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

ReservedRange& ReservedRange::operator=(ReservedRange&& other) noexcept {
  if (this == &other) return *this;
  Leave({});
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

ReservedRange::~ReservedRange() {
  Leave({});
}

Status ReservedRange::Extend(uint64_t bytes) {
  if (bytes <= bytes_) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(MapReserved(address() + bytes_, bytes - bytes_));
  bytes_ = bytes;
  return Status::Ok();
}

Status ReservedRange::Commit(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return Status::Ok();
  if (mprotect(data_ + offset, bytes, PROT_READ | PROT_WRITE) != 0) {
    return Status(Code::kNoSpace, Status::FromErrno(errno, fmt::format("mprotect of {} bytes", bytes)).message());
  }
  return Status::Ok();
}

void ReservedRange::PreferLargePages(uint64_t offset, uint64_t bytes) {
  // Where the kernel has none, small ones do.
  (void)madvise(data_ + offset, bytes, MADV_HUGEPAGE);
}

Status ReservedRange::GiveBack(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return Status::Ok();
  if (mmap(data_ + offset, bytes, PROT_NONE, kReserved | MAP_FIXED, -1, 0) != MAP_FAILED) return Status::Ok();
  return Status(Code::kNoSpace, Status::FromErrno(errno, fmt::format("mmap of {} bytes", bytes)).message());
}

void ReservedRange::Clear(uint64_t offset, uint64_t bytes) {
  // What is locked in memory stays, and is used again.
  (void)madvise(data_ + offset, bytes, MADV_DONTNEED);
}

void ReservedRange::Leave(const std::vector<Piece>& pieces) {
  if (!valid()) return;
  uint64_t from = 0;
  const auto unmap_to = [&](uint64_t end) {
    if (end > from) munmap(data_ + from, end - from);
  };
  for (const Piece& piece : pieces) {
    unmap_to(piece.offset);
    from = piece.offset + piece.bytes;
  }
  unmap_to(bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace kedge::os
