// A file system in memory that can lose power: what the store and the commit path are driven with through thousands of
// schedules. No real I/O; a call takes about a microsecond. See simulated_disk.h for what survives a crash.
//
//   SimulatedFileSystem fs({.seed = seed});
//   fs.faults().KillAfter(n);        // the process dies at its n-th call; Work() ends with errors
//   Work(fs);
//   fs.Crash(seed);                  // the machine loses power as well; or fs.Restart(): only the process died
//   Recover(fs); Check(fs);
//
// Everything follows from the seeds and the calls, so a failure replays: put seed and n into every message (SCOPED_TRACE).
// Files must not outlive their file system. Thread safe; with several threads the schedule is theirs. Paths are absolute; no
// symbolic links; no "..".
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "base/random.h"
#include "os/files/file_system.h"
#include "os/testing/fault_plan.h"
#include "os/testing/simulated_disk.h"

namespace kedge::os::testing {

struct SimulatedOptions {
  uint64_t seed = 1;
  uint64_t capacity_bytes = uint64_t{1} << 40;
};

class SimulatedFileSystem : public FileSystem {
 public:
  explicit SimulatedFileSystem(SimulatedOptions options = {});
  // The same disk, page cache and seed, without open files, rules and counts: to try several crashes of one state.
  std::unique_ptr<SimulatedFileSystem> Clone() const;

  // Errors, short transfers, the kill, and the counts of calls. A failing Fsync, Fdatasync or Close drops dirty pages.
  FaultPlan& faults() { return faults_; }

  // The process died and a new one starts: open files are dead (EBADF), locks are free, the rules are cleared; the page
  // cache stays.
  void Restart();
  // The power went: as Restart, and only what was synced is there, plus a random part of what was not.
  void Crash(uint64_t seed);

  void SetCapacity(uint64_t bytes);
  // Every change fails with EROFS.
  void SetReadOnly(bool read_only);
  uint64_t UsedBytes() const;
  // Its clock, which stamps files: a nanosecond goes by with each change, and more only here.
  void PassTime(Duration duration);
  int64_t NowNs();

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
  // One after the other, in any order.
  std::vector<Status> SyncTogether(std::span<File* const> files) override;

 private:
  friend class SimulatedFile;
  struct Lock {
    uint64_t exclusive_holder = 0;  // the number of the open file
    std::set<uint64_t> shared_holders;
  };
  FileInfo InfoOf(SimulatedDisk::NodeId id);
  void DropOpenFiles();
  Status OnPath(Call call, const std::string& path, SimulatedDisk::NodeId* id);

  mutable std::mutex mutex_;
  FaultPlan faults_;
  SimulatedDisk disk_;
  Random random_;
  bool read_only_ = false;
  uint64_t epoch_ = 0;  // files of an earlier one are dead
  uint64_t next_file_ = 1;
  std::unordered_map<SimulatedDisk::NodeId, Lock> locks_;
};

}  // namespace kedge::os::testing
