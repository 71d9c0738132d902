#include "os/testing/faulty_file_system.h"

#include <cerrno>

namespace kedge::os::testing {
namespace {

Status Decide(FaultPlan& plan, Call call, const std::string& path, const std::string& second_path = {}) {
  const auto verdict = plan.OnCall(call, path, second_path);
  if (verdict.errno_value == 0) return Status::Ok();
  return Status::FromErrno(verdict.errno_value, std::string(CallName(call)) + " " + path);
}

class FaultyFile final : public File {
 public:
  FaultyFile(std::unique_ptr<File> wrapped, FaultPlan& plan) : File(wrapped->path()), wrapped_(std::move(wrapped)), plan_(plan) {}

  Result<size_t> Pread(void* buffer, size_t bytes, uint64_t offset) override {
    const auto verdict = plan_.OnCall(Call::kPread, path(), {}, bytes);
    if (verdict.errno_value != 0) return Status::FromErrno(verdict.errno_value, "pread " + path());
    return wrapped_->Pread(buffer, verdict.bytes, offset);
  }
  Result<size_t> Pwrite(const void* buffer, size_t bytes, uint64_t offset) override {
    const auto verdict = plan_.OnCall(Call::kPwrite, path(), {}, bytes);
    if (verdict.errno_value != 0) return Status::FromErrno(verdict.errno_value, "pwrite " + path());
    return wrapped_->Pwrite(buffer, verdict.bytes, offset);
  }
  Status Fsync() override {
    KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kFsync, path()));
    return wrapped_->Fsync();
  }
  Status Fdatasync() override {
    KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kFdatasync, path()));
    return wrapped_->Fdatasync();
  }
  Status SyncFileRange(uint64_t offset, uint64_t bytes, SyncRange how) override {
    KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kSyncFileRange, path()));
    return wrapped_->SyncFileRange(offset, bytes, how);
  }
  Status Ftruncate(uint64_t size_bytes) override {
    KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kFtruncate, path()));
    return wrapped_->Ftruncate(size_bytes);
  }
  Status Fallocate(uint64_t offset, uint64_t bytes, bool keep_size) override {
    KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kFallocate, path()));
    return wrapped_->Fallocate(offset, bytes, keep_size);
  }
  Result<FileInfo> Fstat() override {
    KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kFstat, path()));
    return wrapped_->Fstat();
  }
  Result<bool> TryLock(bool exclusive) override {
    KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kLock, path()));
    return wrapped_->TryLock(exclusive);
  }
  void DropCache(uint64_t offset, uint64_t bytes) override { wrapped_->DropCache(offset, bytes); }
  Status Close() override {
    const Status decided = Decide(plan_, Call::kClose, path());
    const Status closed = wrapped_->Close();
    return decided.ok() ? closed : decided;
  }
  int descriptor() const override { return -1; }

 private:
  const std::unique_ptr<File> wrapped_;
  FaultPlan& plan_;
};

}  // namespace

Result<std::unique_ptr<File>> FaultyFileSystem::Open(const std::string& path, OpenFlags flags, uint32_t mode) {
  KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kOpen, path));
  KEDGE_ASSIGN_OR_RETURN(auto file, wrapped_.Open(path, flags, mode));
  return std::unique_ptr<File>(std::make_unique<FaultyFile>(std::move(file), plan_));
}

Status FaultyFileSystem::Rename(const std::string& from, const std::string& to) {
  KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kRename, from, to));
  return wrapped_.Rename(from, to);
}

Status FaultyFileSystem::Link(const std::string& from, const std::string& to) {
  KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kLink, from, to));
  return wrapped_.Link(from, to);
}

Status FaultyFileSystem::Unlink(const std::string& path) {
  KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kUnlink, path));
  return wrapped_.Unlink(path);
}

Status FaultyFileSystem::Mkdir(const std::string& path, uint32_t mode) {
  KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kMkdir, path));
  return wrapped_.Mkdir(path, mode);
}

Status FaultyFileSystem::Rmdir(const std::string& path) {
  KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kRmdir, path));
  return wrapped_.Rmdir(path);
}

Result<std::vector<FolderEntry>> FaultyFileSystem::List(const std::string& path) {
  KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kList, path));
  return wrapped_.List(path);
}

Result<FileInfo> FaultyFileSystem::Stat(const std::string& path) {
  KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kStat, path));
  return wrapped_.Stat(path);
}

Result<VolumeInfo> FaultyFileSystem::StatVolume(const std::string& path) {
  KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kStatVolume, path));
  return wrapped_.StatVolume(path);
}

Status FaultyFileSystem::Chmod(const std::string& path, uint32_t mode) {
  KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kChmod, path));
  return wrapped_.Chmod(path, mode);
}

Status FaultyFileSystem::SetModifiedTime(const std::string& path, int64_t modified_ns) {
  KEDGE_RETURN_IF_ERROR(Decide(plan_, Call::kSetModifiedTime, path));
  return wrapped_.SetModifiedTime(path, modified_ns);
}

}  // namespace kedge::os::testing
