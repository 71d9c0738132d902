// What the file systems over system calls share: open files, listings and what fstat says. Internal to src/os.
#pragma once

#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "os/files/file_system.h"
#include "os/files/unique_fd.h"

namespace kedge::os {

// Repeats a call that returns -1 with EINTR. Never used with close.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return result;
}

// Of a call that has just returned.
Status Check(int result, const char* call, const std::string& path);

// For open(2), with O_CLOEXEC and O_NOCTTY.
int SystemFlags(OpenFlags flags);
std::unique_ptr<File> MakeSystemFile(UniqueFd fd, std::string path);
FileInfo InfoOf(const struct stat& stat);
// `folder` is open for reading.
Result<std::vector<FolderEntry>> ListFolder(UniqueFd folder, const std::string& path);
VolumeInfo VolumeOf(const struct statvfs& volume, const struct statfs& type);
// For utimensat: leaves the time of access as it is.
struct ModifiedTime {
  explicit ModifiedTime(int64_t modified_ns);
  timespec times[2];
};

}  // namespace kedge::os
