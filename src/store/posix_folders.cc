#include "store/posix_folders.h"

#include <cerrno>

#include "os/files.h"

namespace kedge {

namespace {
constexpr uint32_t kPrivateMode = 0700;
}  // namespace

Status PosixFolders::Make(const std::string& path) { return Ensure(path, true); }

Status PosixFolders::Require(const std::string& path) { return Ensure(path, false); }

Status PosixFolders::Ensure(const std::string& path, bool make) {
  {
    const std::lock_guard lock(mutex_);
    if (durable_.contains(path)) return Status::Ok();
  }
  // What stands above the store is the user's, made and synced like the rest where it is missing.
  const std::string parent = os::ParentPath(path);
  if (path.size() > root_.size()) {
    KEDGE_RETURN_IF_ERROR(Ensure(parent, make));
  } else if (make) {
    KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs_, parent, mode_, /*durable=*/true));
  }
  if (make) {
    KEDGE_RETURN_IF_ERROR(MakeOne(path));
  } else {
    KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, fs_.Stat(path));
    if (info.kind != os::FileKind::kFolder) return Status::FromErrno(ENOTDIR, "stat " + path);
  }
  // The root's parent may be one that this user cannot open; a store that exists there is taken as it is.
  const Status synced = os::SyncFolder(fs_, parent);
  if (!synced.ok() && !(path == root_ && synced.code() == Code::kPermission)) return synced;
  const std::lock_guard lock(mutex_);
  durable_.insert(path);
  return Status::Ok();
}

Status PosixFolders::MakeOne(const std::string& path) {
  const Status made = fs_.Mkdir(path, mode_);
  if (made.errno_value() == EEXIST) {
    KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, fs_.Stat(path));
    if (info.kind != os::FileKind::kFolder) return Status::FromErrno(ENOTDIR, "mkdir " + path);
    return Status::Ok();
  }
  KEDGE_RETURN_IF_ERROR(made);
  // The umask takes bits away that a shared store asks for.
  return mode_ == kPrivateMode ? Status::Ok() : fs_.Chmod(path, mode_);
}

void PosixFolders::Forget(const std::string& path) {
  const std::lock_guard lock(mutex_);
  // Below: between "path/" and "path0", '0' being the character after '/'.
  durable_.erase(path);
  durable_.erase(durable_.lower_bound(path + '/'), durable_.lower_bound(path + '0'));
}

}  // namespace kedge
