#include "os/files/system_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "os/files/failed_call.h"

namespace kedge::os {
namespace {

// Linux transfers at most this much in one call.
constexpr size_t kTransferBytesMax = 0x7ffff000;

FileKind KindOf(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::kFile;
  if (S_ISDIR(mode)) return FileKind::kFolder;
  if (S_ISLNK(mode)) return FileKind::kLink;
  return FileKind::kOther;
}

class SystemFile final : public File {
 public:
  SystemFile(UniqueFd fd, std::string path) : File(std::move(path)), fd_(std::move(fd)) {}

  Result<size_t> Pread(void* buffer, size_t bytes, uint64_t offset) override {
    const ssize_t got =
        Retry([&] { return pread(fd_.get(), buffer, std::min(bytes, kTransferBytesMax), static_cast<off_t>(offset)); });
    if (got < 0) return Failed("pread", path());
    return static_cast<size_t>(got);
  }

  Result<size_t> Pwrite(const void* buffer, size_t bytes, uint64_t offset) override {
    const ssize_t put =
        Retry([&] { return pwrite(fd_.get(), buffer, std::min(bytes, kTransferBytesMax), static_cast<off_t>(offset)); });
    if (put < 0) return Failed("pwrite", path());
    return static_cast<size_t>(put);
  }

  Status Fsync() override {
    return Check(Retry([&] { return fsync(fd_.get()); }), "fsync", path());
  }
  Status Fdatasync() override {
    return Check(Retry([&] { return fdatasync(fd_.get()); }), "fdatasync", path());
  }

  Status SyncFileRange(uint64_t offset, uint64_t bytes, SyncRange how) override {
    const unsigned flags = how == SyncRange::kStart
                               ? SYNC_FILE_RANGE_WRITE
                               : SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    const auto sync = [&] { return sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes), flags); };
    return Check(Retry(sync), "sync_file_range", path());
  }

  Status Ftruncate(uint64_t size_bytes) override {
    return Check(Retry([&] { return ftruncate(fd_.get(), static_cast<off_t>(size_bytes)); }), "ftruncate", path());
  }

  Status Fallocate(uint64_t offset, uint64_t bytes, bool keep_size) override {
    const int mode = keep_size ? FALLOC_FL_KEEP_SIZE : 0;
    const auto allocate = [&] { return fallocate(fd_.get(), mode, static_cast<off_t>(offset), static_cast<off_t>(bytes)); };
    return Check(Retry(allocate), "fallocate", path());
  }

  Result<FileInfo> Fstat() override {
    struct stat stat {};
    if (fstat(fd_.get(), &stat) != 0) return Failed("fstat", path());
    return InfoOf(stat);
  }

  Result<bool> TryLock(bool exclusive) override {
    if (Retry([&] { return flock(fd_.get(), (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB); }) == 0) return true;
    if (errno == EWOULDBLOCK) return false;
    return Failed("flock", path());
  }

  void DropCache(uint64_t offset, uint64_t bytes) override {
    posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
  }

  Status Close() override {
    if (!fd_.valid()) return Status::FromErrno(EBADF, "close " + path());
    // EINTR included: the descriptor is gone, and whether the data arrived is unknown.
    return Check(close(fd_.Release()), "close", path());
  }

  int descriptor() const override { return fd_.get(); }

 private:
  UniqueFd fd_;
};

FileKind KindOfEntry(int folder, const dirent& entry) {
  switch (entry.d_type) {
    case DT_REG: return FileKind::kFile;
    case DT_DIR: return FileKind::kFolder;
    case DT_LNK: return FileKind::kLink;
    case DT_UNKNOWN: break;  // some file systems do not say
    default: return FileKind::kOther;
  }
  struct stat stat {};
  if (fstatat(folder, entry.d_name, &stat, AT_SYMLINK_NOFOLLOW) != 0) return FileKind::kOther;
  return KindOf(stat.st_mode);
}

}  // namespace

Status Check(int result, const char* call, const std::string& path) {
  return result == 0 ? Status::Ok() : Failed(call, path);
}

int SystemFlags(OpenFlags flags) {
  int system = O_CLOEXEC | O_NOCTTY;
  if (Has(flags, OpenFlags::kReadWrite)) {
    system |= O_RDWR;
  } else {
    system |= Has(flags, OpenFlags::kWrite) ? O_WRONLY : O_RDONLY;
  }
  if (Has(flags, OpenFlags::kCreate)) system |= O_CREAT;
  if (Has(flags, OpenFlags::kExclusive)) system |= O_EXCL;
  if (Has(flags, OpenFlags::kTruncate)) system |= O_TRUNC;
  if (Has(flags, OpenFlags::kDirect)) system |= O_DIRECT;
  if (Has(flags, OpenFlags::kFolder)) system |= O_DIRECTORY;
  if (Has(flags, OpenFlags::kNoFollow)) system |= O_NOFOLLOW;
  return system;
}

FileInfo InfoOf(const struct stat& stat) {
  FileInfo info;
  info.kind = KindOf(stat.st_mode);
  info.size_bytes = static_cast<uint64_t>(stat.st_size);
  info.allocated_bytes = static_cast<uint64_t>(stat.st_blocks) * 512;
  info.device = stat.st_dev;
  info.inode = stat.st_ino;
  info.link_count = static_cast<uint32_t>(stat.st_nlink);
  info.mode = stat.st_mode & 07777;
  info.user_id = stat.st_uid;
  info.modified_ns = static_cast<int64_t>(stat.st_mtim.tv_sec) * 1'000'000'000 + stat.st_mtim.tv_nsec;
  return info;
}

std::unique_ptr<File> MakeSystemFile(UniqueFd fd, std::string path) {
  return std::make_unique<SystemFile>(std::move(fd), std::move(path));
}

Result<std::vector<FolderEntry>> ListFolder(UniqueFd fd, const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(fdopendir(fd.get()), closedir);
  if (!folder) return Failed("opendir", path);
  (void)fd.Release();
  std::vector<FolderEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(folder.get());
    if (entry == nullptr) break;
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    entries.push_back({entry->d_name, KindOfEntry(dirfd(folder.get()), *entry)});
  }
  if (errno != 0) return Failed("readdir", path);
  return entries;
}

VolumeInfo VolumeOf(const struct statvfs& volume, const struct statfs& type) {
  VolumeInfo info;
  info.block_bytes = volume.f_frsize;
  info.total_bytes = volume.f_blocks * volume.f_frsize;
  info.available_bytes = volume.f_bavail * volume.f_frsize;
  info.total_inodes = volume.f_files;
  info.available_inodes = volume.f_favail;
  info.read_only = (volume.f_flag & ST_RDONLY) != 0;
  info.type = static_cast<uint32_t>(type.f_type);
  return info;
}

ModifiedTime::ModifiedTime(int64_t modified_ns) : times{{0, UTIME_OMIT}, {}} {
  times[1].tv_sec = modified_ns / 1'000'000'000;
  times[1].tv_nsec = modified_ns % 1'000'000'000;
  if (times[1].tv_nsec < 0) {
    times[1].tv_nsec += 1'000'000'000;
    --times[1].tv_sec;
  }
}

}  // namespace kedge::os
