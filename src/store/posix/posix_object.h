// The objects of a PosixStore: files under temporary names until they are published.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "os/files/file_system.h"
#include "store/store.h"

namespace kedge {

// Steps of a commit, apart from each other so that Publish can interleave those of several objects.
class PosixObjectWriter final : public ObjectWriter {
 public:
  struct Place {
    std::string key;
    std::string path;            // where it is to appear
    std::string handle;          // the temporary's name, relative to the store
    std::string temporary_path;  // where it lies now
    uint64_t border_bytes = kSharedBlockBytes;
  };
  // `store` must outlive it; Commit goes through its Publish. `direct` is the same file with O_DIRECT, or null: it
  // takes what is aligned in memory and file, past the page cache.
  PosixObjectWriter(Store& store, os::FileSystem& fs, std::unique_ptr<os::File> file, std::unique_ptr<os::File> direct,
                    Place place)
      : store_(store), fs_(fs), file_(std::move(file)), direct_(std::move(direct)), place_(std::move(place)) {}

  Status WriteAt(uint64_t offset, ByteSpan bytes) override;
  bool is_buffered() const override { return direct_ == nullptr; }
  Status FlushHint(uint64_t offset, uint64_t bytes, bool wait) override;
  uint64_t NextBorder(uint64_t offset) const override;
  Status Commit() override;
  Status Abandon() override;
  const std::string& handle() const override { return place_.handle; }
  const std::string& key() const override { return place_.key; }

  const std::string& path() const { return place_.path; }
  // A commit begins, at most once. An error, also an earlier one of WriteAt: the temporary is removed.
  Status BeginCommit();
  // Links the temporary into place, to be synced there, unless something is there, or the file system cannot: then it is to be
  // synced first, so that what is there is replaced by what is whole and durable. An error: the temporary is removed.
  Status ShowIfAbsent();
  bool is_in_place() const { return is_in_place_; }
  os::File& file() { return *file_; }
  // `synced`: what the sync of the file said, and of the folder where it is in place. Closes it. An error: nothing stays.
  Status EndSync(const Status& synced);
  // Rename into place of what is synced; not durable before the folder is. On an error the temporary is removed.
  Status MoveIntoPlace();
  // After a failed sync of the folder: takes the object away again, as far as that goes.
  void TakeBack();

 private:
  Status Remember(const Status& written);
  Status CloseFiles();

  Store& store_;
  os::FileSystem& fs_;
  std::unique_ptr<os::File> file_;
  std::unique_ptr<os::File> direct_;  // or null
  const Place place_;
  std::mutex mutex_;
  Status failure_;  // the first one of a write; guarded by mutex_
  bool closed_ = false;
  bool is_in_place_ = false;
};

class PosixObjectContributor final : public ObjectContributor {
 public:
  // As PosixObjectWriter's.
  PosixObjectContributor(std::unique_ptr<os::File> file, std::unique_ptr<os::File> direct)
      : file_(std::move(file)), direct_(std::move(direct)) {}
  Status WriteAt(uint64_t offset, ByteSpan bytes) override;
  bool is_buffered() const override { return direct_ == nullptr; }
  Status FlushHint(uint64_t offset, uint64_t bytes) override;
  Status Finish() override;

 private:
  Status Remember(const Status& written);

  std::unique_ptr<os::File> file_;
  std::unique_ptr<os::File> direct_;  // or null
  std::mutex mutex_;
  Status failure_;  // guarded by mutex_
};

class PosixObjectReader final : public ObjectReader {
 public:
  PosixObjectReader(std::unique_ptr<os::File> file, uint64_t size_bytes) : file_(std::move(file)), size_bytes_(size_bytes) {}
  Status ReadAt(uint64_t offset, std::span<std::byte> out) override;
  uint64_t size_bytes() const override { return size_bytes_; }

 private:
  std::unique_ptr<os::File> file_;
  const uint64_t size_bytes_;
};

}  // namespace kedge
