#include "os/memory/mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "os/files/failed_call.h"
#include "os/files/private_files.h"

namespace kedge::os {
namespace {

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

constexpr size_t kLargePageBytes = size_t{2} << 20;
// Between two looks at `cancel`: a few milliseconds of zeroing.
constexpr size_t kPopulatePieceBytes = size_t{8} << 20;

Status PopulatePiece(std::byte* data, size_t bytes, const std::string& path) {
  while (madvise(data, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) return Failed("madvise(MADV_POPULATE_WRITE)", path);
    // An old kernel. A read maps a page of a shared file for writing too; writing would race with its users.
    const size_t page_bytes = PageBytes();
    for (size_t offset = 0; offset < bytes; offset += page_bytes) {
      static_cast<void>(*static_cast<const volatile std::byte*>(data + offset));
    }
    return Status::Ok();
  }
  return Status::Ok();
}

// Where the file's large pages can be mapped as such: at a multiple of their size.
void* MapAligned(size_t bytes, int fd) {
  if (bytes < kLargePageBytes) return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const size_t reserved_bytes = bytes + kLargePageBytes;
  void* const reserved = mmap(nullptr, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return MAP_FAILED;
  const auto begin = reinterpret_cast<uintptr_t>(reserved);
  const uintptr_t aligned = (begin + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes;
  void* const data = mmap(reinterpret_cast<void*>(aligned), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  const int failure = errno;
  if (data == MAP_FAILED) {
    munmap(reserved, reserved_bytes);
    errno = failure;
    return MAP_FAILED;
  }
  const size_t page_bytes = PageBytes();
  const uintptr_t end = aligned + (bytes + page_bytes - 1) / page_bytes * page_bytes;
  if (aligned > begin) munmap(reserved, aligned - begin);
  if (end < begin + reserved_bytes) munmap(reinterpret_cast<void*>(end), begin + reserved_bytes - end);
  return data;
}

}  // namespace

size_t PageBytes() {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

Result<SharedMapping> SharedMapping::Map(UniqueFd fd, const std::string& path, size_t bytes) {
  void* data = MapAligned(bytes, fd.get());
  if (data == MAP_FAILED) return Failed("mmap", path);
  // A forked child of the application has no business with the pool, and copying its page tables costs fork time.
  madvise(data, bytes, MADV_DONTFORK);
  madvise(data, bytes, MADV_DONTDUMP);
  SharedMapping mapping;
  mapping.fd_ = std::move(fd);
  mapping.data_ = static_cast<std::byte*>(data);
  mapping.bytes_ = bytes;
  mapping.path_ = path;
  return mapping;
}

Result<SharedMapping> SharedMapping::Create(const std::string& path, size_t bytes, uint32_t mode) {
  if (bytes == 0) return Status(Code::kInvalidArgument, "a shared memory file of no bytes: " + path);
  KEDGE_ASSIGN_OR_RETURN(UniqueFd fd, OpenPrivate(path, O_RDWR | O_CREAT | O_EXCL, mode));
  int allocated = 0;
  do {
    allocated = fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes));
  } while (allocated != 0 && errno == EINTR);
  if (allocated != 0) {
    const Status status = Status::FromErrno(errno, fmt::format("reserve {} bytes in {}", bytes, path));
    (void)PrivateFileSystem().Unlink(path);
    return status;
  }
  auto mapping = Map(std::move(fd), path, bytes);
  if (!mapping.ok()) (void)PrivateFileSystem().Unlink(path);
  return mapping;
}

Result<SharedMapping> SharedMapping::CreateSealed(const std::string& name, size_t bytes) {
  UniqueFd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Failed("memfd_create", name);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return Failed("ftruncate", name);
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return Failed("seal", name);
  return Map(std::move(fd), name, bytes);
}

Result<SharedMapping> SharedMapping::Open(const std::string& path, size_t bytes_expected) {
  KEDGE_ASSIGN_OR_RETURN(UniqueFd fd, OpenPrivate(path, O_RDWR));
  return FromDescriptor(std::move(fd), path, bytes_expected);
}

Result<SharedMapping> SharedMapping::FromDescriptor(UniqueFd fd, const std::string& path, size_t bytes_expected) {
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return Failed("fstat", path);
  if (!S_ISREG(info.st_mode)) return Status(Code::kPermission, path + " is not a plain file");
  if (info.st_uid != geteuid()) {
    return Status(Code::kPermission, fmt::format("{} belongs to user {}, not to {}", path, info.st_uid, geteuid()));
  }
  const auto bytes = static_cast<size_t>(info.st_size);
  if (bytes == 0 || (bytes_expected != 0 && bytes != bytes_expected)) {
    return Status(Code::kCorrupt, fmt::format("{} has {} bytes; {} were expected", path, bytes, bytes_expected));
  }
  return Map(std::move(fd), path, bytes);
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      path_(std::move(other.path_)) {}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  if (this == &other) return *this;
  Unmap();
  fd_ = std::move(other.fd_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  path_ = std::move(other.path_);
  return *this;
}

SharedMapping::~SharedMapping() {
  Unmap();
}

void SharedMapping::Unmap() {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
}

Status SharedMapping::Populate(size_t offset, size_t bytes, const std::atomic<bool>* cancel) const {
  KEDGE_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  const size_t page_bytes = PageBytes();
  const size_t end = offset + bytes;
  size_t position = offset / page_bytes * page_bytes;
  while (position < end) {
    if (cancel != nullptr && cancel->load(std::memory_order_acquire)) return Status::Ok();
    const size_t piece = std::min(kPopulatePieceBytes, end - position);
    KEDGE_RETURN_IF_ERROR(PopulatePiece(data_ + position, piece, path_));
    position += piece;
  }
  return Status::Ok();
}

void SharedMapping::MakeLargePages(size_t offset, size_t bytes) const {
  KEDGE_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  const size_t begin = (offset + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes;
  const size_t end = (offset + bytes) / kLargePageBytes * kLargePageBytes;
  if (begin >= end) return;
  // The kernel collapses only what has a page already. A file system without room says so here.
  const size_t page_bytes = PageBytes();
  for (size_t position = begin; position < end; position += kLargePageBytes) {
    if (madvise(data_ + position, page_bytes, MADV_POPULATE_WRITE) != 0) return;
  }
  while (madvise(data_ + begin, end - begin, MADV_COLLAPSE) != 0 && errno == EINTR) {
  }
}

uint64_t SharedMapping::WrittenBytes(size_t offset, size_t bytes) const {
  KEDGE_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  const auto end = static_cast<off_t>(offset + bytes);
  uint64_t written = 0;
  for (auto at = static_cast<off_t>(offset); at < end;) {
    const off_t data = lseek(fd_.get(), at, SEEK_DATA);
    if (data < 0 || data >= end) break;
    const off_t hole = lseek(fd_.get(), data, SEEK_HOLE);
    at = hole < 0 ? end : std::min(hole, end);
    written += static_cast<uint64_t>(at - data);
  }
  return written;
}

Status SharedMapping::PunchHole(size_t offset, size_t bytes) const {
  KEDGE_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (fallocate(fd_.get(), mode, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return Failed("punch a hole in", path_);
  }
  return Status::Ok();
}

Status SharedMapping::CheckLinked() const {
  struct stat mapped {};
  if (fstat(fd_.get(), &mapped) != 0) return Failed("fstat", path_);
  if (mapped.st_nlink == 0) return Status(Code::kNotFound, path_ + " was deleted while in use");
  if (static_cast<size_t>(mapped.st_size) < bytes_) {
    return Status(Code::kCorrupt,
                  fmt::format("{} was cut short while in use, from {} bytes to {}", path_, bytes_, mapped.st_size));
  }
  KEDGE_ASSIGN_OR_RETURN(const FileInfo named, PrivateFileSystem().Stat(path_));
  if (named.inode != mapped.st_ino || named.device != mapped.st_dev) {
    return Status(Code::kNotFound, path_ + " was replaced by another file while in use");
  }
  return Status::Ok();
}

}  // namespace kedge::os
