// A shared memory file: created with its space reserved, mapped shared by agent and clients, faulted in ahead.
//
// The space is fallocated, so that a full /dev/shm is an error of Create and never a SIGBUS in the middle of a copy.
// Fresh pages are slow (the kernel zeroes them) and so are unmapped page tables; Populate does both off the blocked
// path. The file survives its processes; it may be deleted or cut short under us, which CheckLinked finds. It is the user's
// alone (0600, in a 0700 folder); against another process of that user that cuts it short only a sealed one is safe, and a
// process that maps it must expect SIGBUS (os/process/signals.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "os/files/unique_fd.h"

namespace kedge::os {

// The processor's smallest unit of mapping.
size_t PageBytes();

// Movable owner of one mapping of a whole file. Distinct threads may use the bytes; the object itself is not locked.
class SharedMapping {
 public:
  // A new file; kAlreadyExists when there is one, kNoSpace when the space is not there (nothing stays behind).
  static Result<SharedMapping> Create(const std::string& path, size_t bytes, uint32_t mode = 0600);
  // Memory without a path, which no process can cut short or lengthen; it goes with its last descriptor. `name` is for people.
  static Result<SharedMapping> CreateSealed(const std::string& name, size_t bytes);
  // An existing file of this user. Refuses (kPermission) one of another user or that is no plain file, and
  // (kCorrupt) one of another size, unless bytes_expected is 0.
  static Result<SharedMapping> Open(const std::string& path, size_t bytes_expected = 0);
  // The same file through a descriptor that another process passed.
  static Result<SharedMapping> FromDescriptor(UniqueFd fd, const std::string& path, size_t bytes_expected = 0);

  SharedMapping() = default;
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  ~SharedMapping();

  bool valid() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  int descriptor() const { return fd_.get(); }
  const std::string& path() const { return path_; }

  // Faults the range in for writing, in pieces, and builds this process's page tables for it. The content stays; the
  // range may be in use meanwhile. Returns early with kOk when `cancel` becomes true. MADV_POPULATE_WRITE, and
  // touching each page where the kernel lacks it (before 5.14).
  Status Populate(size_t offset, size_t bytes, const std::atomic<bool>* cancel = nullptr) const;

  // Makes the range's space in large pages (MADV_COLLAPSE, since Linux 6.1) where they lie whole in it; the content stays. They
  // are made and mapped some times as fast as small ones, and read by a device as one piece each. What the kernel or its
  // memory has none for stays as it is: whoever needs the space reserves it afterwards all the same.
  void MakeLargePages(size_t offset, size_t bytes) const;

  // Of the range, what has been written since its space was made, as far as the file system tells (SEEK_DATA).
  uint64_t WrittenBytes(size_t offset, size_t bytes) const;

  // Gives the pages back to the kernel; the range reads as zeros afterwards. The space is no longer reserved.
  Status PunchHole(size_t offset, size_t bytes) const;

  // kNotFound when the file was deleted or its name now belongs to another file: the mapping itself stays usable.
  // kCorrupt when it was cut short: beyond its end the mapping is not.
  Status CheckLinked() const;

 private:
  static Result<SharedMapping> Map(UniqueFd fd, const std::string& path, size_t bytes);
  void Unmap();

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  std::string path_;
};

}  // namespace kedge::os
