#include "os/testing/interposed_file_system.h"

namespace kedge::os::testing {
namespace {

using Before = InterposedFileSystem::Before;

Status Dead(Call call, const std::string& path) {
  return Status::FromErrno(kKilledErrno, std::string(CallName(call)) + " " + path);
}

// `real` makes the call. What returns a value cannot be pretended.
template <typename Real>
auto Answer(const Before& before, Call call, const std::string& path, Real real) -> decltype(real()) {
  const Interposition interposition = before(call, path);
  if (interposition == Interposition::kDie) return Dead(call, path);
  if constexpr (std::is_same_v<decltype(real()), Status>) {
    if (interposition == Interposition::kPretend) return Status::Ok();
  }
  return real();
}

class InterposedFile final : public File {
 public:
  InterposedFile(std::unique_ptr<File> wrapped, const Before& before)
      : File(wrapped->path()), wrapped_(std::move(wrapped)), before_(before) {}

  Result<size_t> Pread(void* buffer, size_t bytes, uint64_t offset) override {
    return Answer(before_, Call::kPread, path(), [&] { return wrapped_->Pread(buffer, bytes, offset); });
  }
  Result<size_t> Pwrite(const void* buffer, size_t bytes, uint64_t offset) override {
    return Answer(before_, Call::kPwrite, path(), [&] { return wrapped_->Pwrite(buffer, bytes, offset); });
  }
  Status Fsync() override {
    return Answer(before_, Call::kFsync, path(), [&] { return wrapped_->Fsync(); });
  }
  Status Fdatasync() override {
    return Answer(before_, Call::kFdatasync, path(), [&] { return wrapped_->Fdatasync(); });
  }
  Status SyncFileRange(uint64_t offset, uint64_t bytes, SyncRange how) override {
    return Answer(before_, Call::kSyncFileRange, path(), [&] { return wrapped_->SyncFileRange(offset, bytes, how); });
  }
  Status Ftruncate(uint64_t size_bytes) override {
    return Answer(before_, Call::kFtruncate, path(), [&] { return wrapped_->Ftruncate(size_bytes); });
  }
  Status Fallocate(uint64_t offset, uint64_t bytes, bool keep_size) override {
    return Answer(before_, Call::kFallocate, path(), [&] { return wrapped_->Fallocate(offset, bytes, keep_size); });
  }
  Result<FileInfo> Fstat() override {
    return Answer(before_, Call::kFstat, path(), [&] { return wrapped_->Fstat(); });
  }
  Result<bool> TryLock(bool exclusive) override {
    return Answer(before_, Call::kLock, path(), [&] { return wrapped_->TryLock(exclusive); });
  }
  void DropCache(uint64_t offset, uint64_t bytes) override { wrapped_->DropCache(offset, bytes); }
  Status Close() override {
    return Answer(before_, Call::kClose, path(), [&] { return wrapped_->Close(); });
  }
  int descriptor() const override { return -1; }

 private:
  const std::unique_ptr<File> wrapped_;
  const Before& before_;
};

}  // namespace

Result<std::unique_ptr<File>> InterposedFileSystem::Open(const std::string& path, OpenFlags flags, uint32_t mode) {
  Result<std::unique_ptr<File>> file = Answer(before_, Call::kOpen, path, [&] { return wrapped_.Open(path, flags, mode); });
  if (!file.ok()) return file;
  return std::unique_ptr<File>(std::make_unique<InterposedFile>(std::move(*file), before_));
}

Status InterposedFileSystem::Rename(const std::string& from, const std::string& to) {
  return Answer(before_, Call::kRename, from, [&] { return wrapped_.Rename(from, to); });
}

Status InterposedFileSystem::Link(const std::string& from, const std::string& to) {
  return Answer(before_, Call::kLink, from, [&] { return wrapped_.Link(from, to); });
}

Status InterposedFileSystem::Unlink(const std::string& path) {
  return Answer(before_, Call::kUnlink, path, [&] { return wrapped_.Unlink(path); });
}

Status InterposedFileSystem::Mkdir(const std::string& path, uint32_t mode) {
  return Answer(before_, Call::kMkdir, path, [&] { return wrapped_.Mkdir(path, mode); });
}

Status InterposedFileSystem::Rmdir(const std::string& path) {
  return Answer(before_, Call::kRmdir, path, [&] { return wrapped_.Rmdir(path); });
}

Result<std::vector<FolderEntry>> InterposedFileSystem::List(const std::string& path) {
  return Answer(before_, Call::kList, path, [&] { return wrapped_.List(path); });
}

Result<FileInfo> InterposedFileSystem::Stat(const std::string& path) {
  return Answer(before_, Call::kStat, path, [&] { return wrapped_.Stat(path); });
}

Result<VolumeInfo> InterposedFileSystem::StatVolume(const std::string& path) {
  return Answer(before_, Call::kStatVolume, path, [&] { return wrapped_.StatVolume(path); });
}

Status InterposedFileSystem::Chmod(const std::string& path, uint32_t mode) {
  return Answer(before_, Call::kChmod, path, [&] { return wrapped_.Chmod(path, mode); });
}

Status InterposedFileSystem::SetModifiedTime(const std::string& path, int64_t modified_ns) {
  return Answer(before_, Call::kSetModifiedTime, path, [&] { return wrapped_.SetModifiedTime(path, modified_ns); });
}

}  // namespace kedge::os::testing
