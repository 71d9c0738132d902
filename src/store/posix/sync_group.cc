#include "store/posix/sync_group.h"

namespace kedge {

size_t SyncGroup::Add(os::File& file) {
  files_.push_back(&file);
  statuses_.emplace_back();
  return files_.size() - 1;
}

size_t SyncGroup::AddFolder(const std::string& path) {
  const auto [found, is_new] = folders_.emplace(path, files_.size());
  if (!is_new) return found->second;
  auto folder = fs_.Open(path, os::OpenFlags::kRead | os::OpenFlags::kFolder);
  statuses_.push_back(folder.status());
  files_.push_back(folder.ok() ? folder->get() : nullptr);
  if (folder.ok()) opened_.push_back(std::move(*folder));
  return found->second;
}

void SyncGroup::Sync() {
  std::vector<os::File*> open;
  std::vector<size_t> members;
  for (size_t member = 0; member < files_.size(); ++member) {
    if (files_[member] == nullptr) continue;
    open.push_back(files_[member]);
    members.push_back(member);
  }
  const std::vector<Status> synced = fs_.SyncTogether(open);
  for (size_t i = 0; i < members.size(); ++i) statuses_[members[i]] = synced[i];
  opened_.clear();
}

}  // namespace kedge
