// FileSystem over system calls.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/files/failed_call.h"
#include "os/files/file_system.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/files/sync_together.h"
#include "os/files/system_file.h"

namespace kedge::os {
namespace {

UniqueFd OpenFolderIn(int folder, const std::string& name, int flags) {
  return UniqueFd(Retry([&] { return openat(folder, name.c_str(), flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }));
}

// `path` in the open folder; `shown` is its whole path, for people.
Status RemoveIn(int folder, const std::string& path, const std::string& shown) {
  if (const size_t slash = path.find('/'); slash != std::string::npos) {
    const UniqueFd next = OpenFolderIn(folder, path.substr(0, slash), O_PATH);
    if (!next.valid()) return errno == ENOENT ? Status::Ok() : Failed("open a folder on the way to", shown);
    return RemoveIn(next.get(), path.substr(slash + 1), shown);
  }
  // Unlink first: a symbolic link must go itself. Folders answer EISDIR (Linux) or EPERM (POSIX).
  if (unlinkat(folder, path.c_str(), 0) == 0 || errno == ENOENT) return Status::Ok();
  const Status unlinked = Failed("unlink", shown);
  if (unlinked.errno_value() != EISDIR && unlinked.errno_value() != EPERM) return unlinked;
  const UniqueFd tree = OpenFolderIn(folder, path, O_RDONLY);
  if (!tree.valid() && errno == ENOTDIR) return unlinked;  // a file that may not go, or what has taken the folder's place
  if (!tree.valid()) return errno == ENOENT ? Status::Ok() : Failed("open", shown);
  UniqueFd listed = OpenFolderIn(tree.get(), ".", O_RDONLY);
  if (!listed.valid()) return Failed("open", shown);
  KEDGE_ASSIGN_OR_RETURN(const auto entries, ListFolder(std::move(listed), shown));
  Status first;
  for (const FolderEntry& entry : entries) {
    const Status removed = RemoveIn(tree.get(), entry.name, JoinPath(shown, entry.name));
    if (first.ok()) first = removed;
  }
  if (unlinkat(folder, path.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT && first.ok()) first = Failed("rmdir", shown);
  return first;
}

class System final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> Open(const std::string& path, OpenFlags flags, uint32_t mode) override {
    UniqueFd fd(Retry([&] { return open(path.c_str(), SystemFlags(flags), static_cast<mode_t>(mode)); }));
    if (!fd.valid()) return Failed("open", path);
    return MakeSystemFile(std::move(fd), path);
  }

  Status Rename(const std::string& from, const std::string& to) override {
    return Check(rename(from.c_str(), to.c_str()), "rename", from + " to " + to);
  }
  Status Link(const std::string& from, const std::string& to) override {
    return Check(link(from.c_str(), to.c_str()), "link", from + " to " + to);
  }
  Status Unlink(const std::string& path) override { return Check(unlink(path.c_str()), "unlink", path); }
  Status Mkdir(const std::string& path, uint32_t mode) override {
    return Check(mkdir(path.c_str(), static_cast<mode_t>(mode)), "mkdir", path);
  }
  Status Rmdir(const std::string& path) override { return Check(rmdir(path.c_str()), "rmdir", path); }

  Result<std::vector<FolderEntry>> List(const std::string& path) override {
    UniqueFd folder(Retry([&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!folder.valid()) return Failed("opendir", path);
    return ListFolder(std::move(folder), path);
  }

  Result<FileInfo> Stat(const std::string& path) override {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return Failed("stat", path);
    return InfoOf(info);
  }

  Result<VolumeInfo> StatVolume(const std::string& path) override {
    struct statvfs volume {};
    struct statfs type {};
    if (Retry([&] { return statvfs(path.c_str(), &volume); }) != 0) return Failed("statvfs", path);
    if (Retry([&] { return statfs(path.c_str(), &type); }) != 0) return Failed("statfs", path);
    return VolumeOf(volume, type);
  }

  Status Chmod(const std::string& path, uint32_t mode) override {
    return Check(chmod(path.c_str(), static_cast<mode_t>(mode)), "chmod", path);
  }

  Status SetModifiedTime(const std::string& path, int64_t modified_ns) override {
    return Check(utimensat(AT_FDCWD, path.c_str(), ModifiedTime(modified_ns).times, 0), "utimensat", path);
  }

  Status RemoveBeneath(const std::string& folder, const std::string& path) override {
    const UniqueFd above(Retry([&] { return open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC); }));
    if (!above.valid()) return errno == ENOENT ? Status::Ok() : Failed("open", folder);
    return RemoveIn(above.get(), path, JoinPath(folder, path));
  }

  Status CheckNotPlanted(const std::string& path) override { return os::CheckNotPlanted(path); }

  std::vector<Status> SyncTogether(std::span<File* const> files) override { return os::SyncTogether(files); }
};

}  // namespace

FileSystem& SystemFileSystem() {
  static System system;
  return system;
}

}  // namespace kedge::os
