// FileSystem: the door to files. Shaped like the system calls (one call each, partial results possible), so that what
// is tested against the simulated one is what runs: see testing/simulated_file_system.h and testing/faulty_file_system.h.
// Three functions at the end are more than a call: two promise what can only be kept from one open folder to the next, and one
// what takes many calls at a time.
//
// Most code wants the helpers of files.h, which finish partial results and know the commit rules.
//
// Errors: Status::FromErrno with "call path", errno kept. EINTR never comes out. Thread safe, also for one File.
// After a failed Fsync, Fdatasync or Close of a written file its content is unknown: abandon the file and write it
// again under a new name. Calling Fsync again would report a success that is none (Linux drops the dirty pages).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/duration.h"
#include "base/status.h"

namespace kedge::os {

enum class OpenFlags : uint32_t {
  kRead = 1,
  kWrite = 2,
  kReadWrite = 3,
  kCreate = 4,      // O_CREAT
  kExclusive = 8,   // O_EXCL: with kCreate, EEXIST when it is there
  kTruncate = 16,   // O_TRUNC
  kDirect = 32,     // O_DIRECT: buffer, offset and length aligned as the device wants it (direct_io.h)
  kFolder = 64,     // O_DIRECTORY: for Fsync of a folder
  kNoFollow = 128,  // O_NOFOLLOW: ELOOP when the last part is a symbolic link
};
constexpr OpenFlags operator|(OpenFlags a, OpenFlags b) {
  return static_cast<OpenFlags>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
constexpr bool Has(OpenFlags flags, OpenFlags one) {
  return (static_cast<uint32_t>(flags) & static_cast<uint32_t>(one)) == static_cast<uint32_t>(one);
}

enum class FileKind : uint8_t { kFile, kFolder, kLink, kOther };

struct FileInfo {
  FileKind kind = FileKind::kOther;
  uint64_t size_bytes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint32_t link_count = 0;
  uint32_t mode = 0;  // permission bits only
  uint32_t user_id = 0;
  int64_t modified_ns = 0;  // since 1970
};

struct FolderEntry {
  std::string name;
  FileKind kind;  // of the entry itself: a symbolic link is kLink
};

struct VolumeInfo {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // to this user
  uint64_t block_bytes = 0;
  uint64_t total_inodes = 0;  // 0 where the file system does not count them
  uint64_t available_inodes = 0;
  bool read_only = false;
  uint32_t type = 0;  // statfs f_type, 0 when simulated
};

enum class SyncRange : uint32_t {
  kStart = 1,         // SYNC_FILE_RANGE_WRITE: start writing dirty pages back, do not wait
  kStartAndWait = 2,  // WAIT_BEFORE | WRITE | WAIT_AFTER; reports write-back errors, but makes nothing durable
};

// An open file or folder. Destroying it closes it too, but only Close reports what close(2) said.
class File {
 public:
  virtual ~File() = default;

  // Up to `bytes`; 0 at the end of the file.
  virtual Result<size_t> Pread(void* buffer, size_t bytes, uint64_t offset) = 0;
  // Up to `bytes`, at least 1 unless bytes is 0.
  virtual Result<size_t> Pwrite(const void* buffer, size_t bytes, uint64_t offset) = 0;
  virtual Status Fsync() = 0;
  virtual Status Fdatasync() = 0;
  virtual Status SyncFileRange(uint64_t offset, uint64_t bytes, SyncRange how) = 0;
  virtual Status Ftruncate(uint64_t size_bytes) = 0;
  // Reserves space; the size grows to offset + bytes unless keep_size. kUnsupported where the file system cannot.
  virtual Status Fallocate(uint64_t offset, uint64_t bytes, bool keep_size) = 0;
  virtual Result<FileInfo> Fstat() = 0;
  // flock(LOCK_EX or LOCK_SH | LOCK_NB): false when another open file holds it. Freed with the file, or by the death of
  // its process and all that inherited it.
  virtual Result<bool> TryLock(bool exclusive) = 0;
  // Tells the kernel that the range will not be needed in the page cache. Advice: failures do not matter.
  virtual void DropCache(uint64_t offset, uint64_t bytes) = 0;
  // At most once; every later call on the file fails with EBADF.
  virtual Status Close() = 0;

  // The descriptor, for io_uring, mmap and sendfile; -1 when there is none (simulated): use the calls above then.
  virtual int descriptor() const = 0;
  const std::string& path() const { return path_; }

 protected:
  explicit File(std::string path) : path_(std::move(path)) {}

 private:
  const std::string path_;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // `mode` counts only with kCreate. Always O_CLOEXEC and O_NOCTTY.
  virtual Result<std::unique_ptr<File>> Open(const std::string& path, OpenFlags flags, uint32_t mode = 0600) = 0;
  // Replaces `to` atomically; durable once the folders are synced.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Link(const std::string& from, const std::string& to) = 0;
  virtual Status Unlink(const std::string& path) = 0;
  virtual Status Mkdir(const std::string& path, uint32_t mode = 0700) = 0;
  virtual Status Rmdir(const std::string& path) = 0;
  // Without "." and "..", in no order.
  virtual Result<std::vector<FolderEntry>> List(const std::string& path) = 0;
  // Follows symbolic links.
  virtual Result<FileInfo> Stat(const std::string& path) = 0;
  virtual Result<VolumeInfo> StatVolume(const std::string& path) = 0;
  virtual Status Chmod(const std::string& path, uint32_t mode) = 0;
  virtual Status SetModifiedTime(const std::string& path, int64_t modified_ns) = 0;

  // Removes folder/path and all below it. Ok when nothing is there. Goes on after errors and returns the first. The real one
  // follows no link below `folder`, whatever others exchange meanwhile: one in the tree goes itself, one on the way to it is
  // an error. By default it is done with the calls above, by name: those of the private one judge each name.
  virtual Status RemoveBeneath(const std::string& folder, const std::string& path);

  // kPermission, with the owner and what to do, when somebody may have planted `path` to have us use it: it lies in a folder
  // in which everybody may write, and belongs neither to this user nor to root nor to that folder's owner; or a link on the
  // way to it is so. kNotFound when it is not there. By default ok.
  virtual Status CheckNotPlanted(const std::string& path);

  // Fsync of each file and folder, all at a time: a journal commits them together, and a server works on all of them. One status
  // each, in order. By default one after the other.
  virtual std::vector<Status> SyncTogether(std::span<File* const> files);
};

// The real one. Lives for ever.
FileSystem& SystemFileSystem();

}  // namespace kedge::os
