#include "os/files/past_cache.h"

#include "os/files/direct_io.h"

namespace kedge::os {
namespace {

class PastCacheFile final : public File {
 public:
  PastCacheFile(std::unique_ptr<File> file, std::unique_ptr<File> direct, size_t least_bytes)
      : File(file->path()), file_(std::move(file)), direct_(std::move(direct)), least_bytes_(least_bytes) {}

  Result<size_t> Pread(void* buffer, size_t bytes, uint64_t offset) override {
    if (const size_t whole = WholeBlocks(buffer, bytes, offset)) {
      auto got = direct_->Pread(buffer, whole, offset);
      if (!IsRefused(got)) return got;
    }
    return file_->Pread(buffer, bytes, offset);
  }
  Result<size_t> Pwrite(const void* buffer, size_t bytes, uint64_t offset) override {
    if (const size_t whole = WholeBlocks(buffer, bytes, offset)) {
      auto put = direct_->Pwrite(buffer, whole, offset);
      if (!IsRefused(put)) return put;
    }
    return file_->Pwrite(buffer, bytes, offset);
  }
  Status Fsync() override { return file_->Fsync(); }
  Status Fdatasync() override { return file_->Fdatasync(); }
  Status SyncFileRange(uint64_t offset, uint64_t bytes, SyncRange how) override {
    return file_->SyncFileRange(offset, bytes, how);
  }
  Status Ftruncate(uint64_t size_bytes) override { return file_->Ftruncate(size_bytes); }
  Status Fallocate(uint64_t offset, uint64_t bytes, bool keep_size) override {
    return file_->Fallocate(offset, bytes, keep_size);
  }
  Result<FileInfo> Fstat() override { return file_->Fstat(); }
  Result<bool> TryLock(bool exclusive) override { return file_->TryLock(exclusive); }
  void DropCache(uint64_t offset, uint64_t bytes) override { file_->DropCache(offset, bytes); }
  Status Close() override {
    const Status closed = direct_->Close();
    KEDGE_RETURN_IF_ERROR(file_->Close());
    return closed;
  }
  int descriptor() const override { return file_->descriptor(); }

 private:
  static bool IsAligned(uint64_t number) { return number % kDirectAlignmentBytes == 0; }
  // 0: it goes through the page cache.
  size_t WholeBlocks(const void* buffer, size_t bytes, uint64_t offset) const {
    if (bytes < least_bytes_ || !IsAligned(offset) || !IsAligned(reinterpret_cast<uintptr_t>(buffer))) return 0;
    return bytes / kDirectAlignmentBytes * kDirectAlignmentBytes;
  }
  // A file system may open a file with O_DIRECT and ask for a greater alignment, or refuse each transfer.
  static bool IsRefused(const Result<size_t>& transferred) {
    return !transferred.ok() && transferred.status().code() == Code::kInvalidArgument;
  }

  const std::unique_ptr<File> file_;
  const std::unique_ptr<File> direct_;
  const size_t least_bytes_;
};

bool IsSame(File& one, File& other) {
  const auto a = one.Fstat();
  const auto b = other.Fstat();
  return a.ok() && b.ok() && a->device == b->device && a->inode == b->inode;
}

}  // namespace

std::unique_ptr<File> PastCache(FileSystem& fs, std::unique_ptr<File> file, OpenFlags flags, size_t least_bytes) {
  auto direct = fs.Open(file->path(), flags | OpenFlags::kDirect);
  if (!direct.ok() || !IsSame(*file, **direct)) return file;
  return std::make_unique<PastCacheFile>(std::move(file), std::move(*direct), least_bytes);
}

}  // namespace kedge::os
