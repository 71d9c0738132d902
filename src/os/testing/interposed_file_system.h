// Any file system, with a function of the test called before every call: to run something else at that very moment
// (another process's work, at each point of this one's), to pretend that a call was made (an fsync that was forgotten),
// or to let this process die there while others go on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "os/files/file_system.h"
#include "os/testing/fault_plan.h"

namespace kedge::os::testing {

enum class Interposition {
  kPass,
  kPretend,  // ok, and nothing is done; only for calls that return no value
  kDie,      // fails with kKilledErrno, and so should every later one
};

class InterposedFileSystem final : public FileSystem {
 public:
  // Called without locks, by whoever makes the call; may use the wrapped file system.
  using Before = std::function<Interposition(Call call, const std::string& path)>;
  // `wrapped` outlives it and its files; it outlives its files.
  InterposedFileSystem(FileSystem& wrapped, Before before) : wrapped_(wrapped), before_(std::move(before)) {}

  Result<std::unique_ptr<File>> Open(const std::string& path, OpenFlags flags, uint32_t mode) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Link(const std::string& from, const std::string& to) override;
  Status Unlink(const std::string& path) override;
  Status Mkdir(const std::string& path, uint32_t mode) override;
  Status Rmdir(const std::string& path) override;
  Result<std::vector<FolderEntry>> List(const std::string& path) override;
  Result<FileInfo> Stat(const std::string& path) override;
  Result<VolumeInfo> StatVolume(const std::string& path) override;
  Status Chmod(const std::string& path, uint32_t mode) override;
  Status SetModifiedTime(const std::string& path, int64_t modified_ns) override;
  Status CheckNotPlanted(const std::string& path) override { return wrapped_.CheckNotPlanted(path); }

 private:
  FileSystem& wrapped_;
  const Before before_;
};

}  // namespace kedge::os::testing
