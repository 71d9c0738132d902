// Any file system, the real one too, with faults injected by a FaultPlan.
//
// A call that is to fail does not reach the wrapped file system, except close, which must free the descriptor. Its
// files have no descriptor(), so that all I/O comes through here.
#pragma once

#include <memory>
#include <string>

#include "os/files/file_system.h"
#include "os/testing/fault_plan.h"

namespace kedge::os::testing {

class FaultyFileSystem : public FileSystem {
 public:
  // Both outlive it and its files.
  FaultyFileSystem(FileSystem& wrapped, FaultPlan& plan) : wrapped_(wrapped), plan_(plan) {}

  Result<std::unique_ptr<File>> Open(const std::string& path, OpenFlags flags, uint32_t mode = 0600) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Link(const std::string& from, const std::string& to) override;
  Status Unlink(const std::string& path) override;
  Status Mkdir(const std::string& path, uint32_t mode = 0700) override;
  Status Rmdir(const std::string& path) override;
  Result<std::vector<FolderEntry>> List(const std::string& path) override;
  Result<FileInfo> Stat(const std::string& path) override;
  Result<VolumeInfo> StatVolume(const std::string& path) override;
  Status Chmod(const std::string& path, uint32_t mode) override;
  Status SetModifiedTime(const std::string& path, int64_t modified_ns) override;
  Status CheckNotPlanted(const std::string& path) override { return wrapped_.CheckNotPlanted(path); }

 private:
  FileSystem& wrapped_;
  FaultPlan& plan_;
};

}  // namespace kedge::os::testing
