// A record of a PosixStore that is to come: a temporary file until it is shown.
#pragma once

#include <memory>
#include <string>

#include "os/files/file_system.h"
#include "store/posix/sync_group.h"
#include "store/store.h"

namespace kedge {

class PosixDraft final : public RecordDraft {
 public:
  struct Place {
    std::string path;
    std::string temporary_path;
  };
  PosixDraft(os::FileSystem& fs, Place place, std::unique_ptr<os::File> file, const std::string& key, ByteSpan bytes,
             const TemporaryOwner& owner, Folders folders)
      : RecordDraft(key, bytes, owner, folders), fs_(fs), place_(std::move(place)), file_(std::move(file)) {}
  ~PosixDraft() override;

  // Its file is synced with the others of the group; once.
  void AddTo(SyncGroup& group);
  void EndSync(const SyncGroup& group);
  // os::ShowIfAbsent, of a draft that was synced, or is now.
  Status Show(uint32_t mode);
  // os::LinkIfAbsent.
  Status ShowInPlace();

 private:
  Status BeDurable();

  os::FileSystem& fs_;
  Place place_;                     // without a temporary once that is gone
  std::unique_ptr<os::File> file_;  // null: synced and closed, as `synced_` says
  size_t member_ = 0;
  Status synced_;
};

}  // namespace kedge
