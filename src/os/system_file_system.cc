// FileSystem over system calls.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/failed_call.h"
#include "os/file_system.h"
#include "os/system_file.h"

namespace kedge::os {
namespace {

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
};

}  // namespace

FileSystem& SystemFileSystem() {
  static System system;
  return system;
}

}  // namespace kedge::os
