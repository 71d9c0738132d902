#include "store/posix/posix_folders.h"

#include <cerrno>

#include "os/files/files.h"

namespace kedge {

namespace {
constexpr uint32_t kPrivateFolderMode = 0700;
constexpr size_t kRememberedMax = 10000;
}  // namespace

Result<PosixFolders::Way> PosixFolders::Find(const std::string& path, Missing missing) {
  Way way;
  KEDGE_RETURN_IF_ERROR(Walk(path, missing, &way));
  return way;
}

void PosixFolders::AddTo(SyncGroup& group, Way* way) {
  for (Way::Folder& folder : way->folders) folder.parent = group.AddFolder(os::ParentPath(folder.path));
}

Status PosixFolders::Conclude(const SyncGroup& group, const Way& way) {
  for (const Way::Folder& folder : way.folders) {
    const bool is_root = folder.path.size() <= root_.size();
    // The root's parent may be one that this user cannot open; a store that exists there is taken as it is.
    const Status& synced = group.status(folder.parent);
    if (!synced.ok() && !(is_root && synced.code() == Code::kPermission)) return synced;
    if (is_root) OnRootSeen();
    const std::lock_guard lock(mutex_);
    if (durable_.size() >= kRememberedMax) durable_.clear();  // costs syncs, no more
    durable_[folder.path] = folder.inode;
  }
  return Status::Ok();
}

Status PosixFolders::MakeDurable(const std::string& path, Missing missing) {
  KEDGE_ASSIGN_OR_RETURN(Way way, Find(path, missing));
  if (way.folders.empty()) return Status::Ok();
  SyncGroup group(fs_);
  AddTo(group, &way);
  group.Sync();
  return Conclude(group, way);
}

Status PosixFolders::Walk(const std::string& path, Missing missing, Way* way) {
  Result<os::FileInfo> info = fs_.Stat(path);
  if (info.ok() && info->kind == os::FileKind::kFolder) {
    const std::lock_guard lock(mutex_);
    const auto known = durable_.find(path);
    if (known != durable_.end() && known->second == Inode{info->device, info->inode}) return Status::Ok();
  }
  const bool is_root = path.size() <= root_.size();
  if (!is_root) KEDGE_RETURN_IF_ERROR(Walk(os::ParentPath(path), missing, way));
  // One that was found is not made, should the whole store be moved away now.
  if (missing == Missing::kMake && !info.ok()) KEDGE_RETURN_IF_ERROR(is_root ? MakeRoot() : MakeOne(path));
  if (is_root) KEDGE_RETURN_IF_ERROR(fs_.CheckNotPlanted(root_));
  info = fs_.Stat(path);
  if (!info.ok()) return info.status();
  if (info->kind != os::FileKind::kFolder) return Status::FromErrno(ENOTDIR, "stat " + path);
  if (is_root) KEDGE_RETURN_IF_ERROR(CheckSameRoot({info->device, info->inode}));
  way->folders.push_back({path, {info->device, info->inode}});
  return Status::Ok();
}

Status PosixFolders::CheckRoot() {
  if (root_checked_.load(std::memory_order_relaxed)) return Status::Ok();
  Status checked = fs_.CheckNotPlanted(root_);
  if (checked.ok()) root_checked_.store(true, std::memory_order_relaxed);
  return checked.code() == Code::kNotFound ? Status::Ok() : checked;
}

std::optional<PosixFolders::Inode> PosixFolders::Root() {
  const Result<os::FileInfo> info = fs_.Stat(root_);
  if (!info.ok()) return std::nullopt;
  return Inode{info->device, info->inode};
}

void PosixFolders::OnRootRead(const std::optional<Inode>& root) {
  OnRootSeen();
  const std::lock_guard lock(mutex_);
  read_root_ = root;
}

Status PosixFolders::CheckSameRoot(const Inode& root) {
  const std::lock_guard lock(mutex_);
  return !read_root_ || *read_root_ == root ? Status::Ok() : Moved();
}

Status PosixFolders::Moved() const {
  return Status::FromErrno(ENOENT, "the store's folder " + root_ + " was moved or unmounted, and is not made anew: stat");
}

Status PosixFolders::MakeRoot() {
  // Asked first: another thread may make the root once it was found missing.
  const bool was_seen = root_seen_.load();
  if (fs_.Stat(root_).status().errno_value() != ENOENT) return Status::Ok();
  if (making_ == RootMaking::kNever || was_seen) return Moved();
  const std::string parent = os::ParentPath(root_);
  if (making_ == RootMaking::kParents) {
    KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs_, parent, mode_, /*durable=*/true));
  } else if (const Status above = fs_.Stat(parent).status(); !above.ok()) {
    return above.WithContext("the folder that the store " + root_ +
                             " is to be made in is not there: mount it, make it, or set store.create = \"parents\"");
  }
  return MakeOne(root_);
}

Status PosixFolders::MakeOne(const std::string& path) {
  const Status made = fs_.Mkdir(path, mode_);
  if (made.errno_value() == EEXIST) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(made);
  // The umask takes bits away that a shared store asks for.
  return mode_ == kPrivateFolderMode ? Status::Ok() : fs_.Chmod(path, mode_);
}

}  // namespace kedge
