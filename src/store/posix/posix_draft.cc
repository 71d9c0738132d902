#include "store/posix/posix_draft.h"

#include <utility>

#include "os/files/files.h"

namespace kedge {

PosixDraft::~PosixDraft() {
  if (file_ != nullptr) static_cast<void>(file_->Close());  // what it says about a record that never comes does not matter
  if (!place_.temporary_path.empty()) static_cast<void>(os::UnlinkIfPresent(fs_, place_.temporary_path));
}

void PosixDraft::AddTo(SyncGroup& group) {
  member_ = group.Add(*file_);
}

void PosixDraft::EndSync(const SyncGroup& group) {
  synced_ = group.status(member_);
  const Status closed = file_->Close();
  if (synced_.ok()) synced_ = closed;
  file_ = nullptr;
}

Status PosixDraft::BeDurable() {
  if (file_ != nullptr) {
    SyncGroup group(fs_);
    AddTo(group);
    group.Sync();
    EndSync(group);
  }
  return synced_;
}

Status PosixDraft::ShowInPlace() {
  KEDGE_RETURN_IF_ERROR(BeDurable());
  return os::LinkIfAbsent(fs_, std::exchange(place_.temporary_path, {}), place_.path);
}

Status PosixDraft::Show(uint32_t mode) {
  KEDGE_RETURN_IF_ERROR(BeDurable());
  return os::ShowIfAbsent(fs_, std::exchange(place_.temporary_path, {}), place_.path, AsText(bytes()), mode);
}

}  // namespace kedge
