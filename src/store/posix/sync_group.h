// What a PosixStore makes durable in one step: open files, and folders, synced together. However many there are, a journal
// takes one commit for them; one after the other, they take one each.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "os/files/file_system.h"

namespace kedge {

class SyncGroup {
 public:
  explicit SyncGroup(os::FileSystem& fs) : fs_(fs) {}

  // `file` outlives Sync. Returns the member's number.
  size_t Add(os::File& file);
  // Once each. That it cannot be opened is found out here, and is its status.
  size_t AddFolder(const std::string& path);
  // Once, after all members were added.
  void Sync();
  const Status& status(size_t member) const { return statuses_[member]; }

 private:
  os::FileSystem& fs_;
  std::vector<os::File*> files_;  // null: a folder that cannot be opened
  std::vector<Status> statuses_;
  std::map<std::string, size_t> folders_;
  std::vector<std::unique_ptr<os::File>> opened_;
};

}  // namespace kedge
