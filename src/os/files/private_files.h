// Files that belong to this user alone: how Kedge opens whatever lies in a run folder, a tier or a scratch.
//
// Such a folder may lie below one in which others may write (/dev/shm, /tmp, a project's scratch), and whatever they put there
// beforehand must not be taken for ours. Each path is therefore walked from "/", from one open folder to the next, and each
// folder is judged by what is open, not by its name:
//  - Where only root and this user may write, anything is as they want it, and their symbolic links are followed.
//  - From the first *shared* folder on (of somebody else, or one that group or others may write in), each folder must belong to
//    this user or root, none may be open for writing to others unless it is sticky, and no link is followed.
//  - A file is opened, renamed or linked only in a *closed* folder: this user's, mode 0700, or below such a one. It must be this
//    user's, and no link.
// What is refused is kPermission and names the folder, its owner and mode, and what to do. In a user namespace that does not map
// root, files of root seem to be the overflow user's: they count as root's above the first folder that others may write in.
// Root on a file system that squashes root cannot own files there, and is refused.
//
// Thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "os/files/file_system.h"
#include "os/files/unique_fd.h"

namespace kedge::os {

// The real one. Lives for ever. Folders that Mkdir makes should have mode 0700.
FileSystem& PrivateFileSystem();

// open(2) with `flags` of fcntl.h: for what needs a descriptor. O_CLOEXEC always.
Result<UniqueFd> OpenPrivate(const std::string& path, int flags, uint32_t mode = 0600);
// A log: appended to, created with mode 0600.
Result<UniqueFd> OpenPrivateLog(const std::string& path);
// The closed folder at `path`, opened with O_PATH: what is reached through it is what was judged.
Result<UniqueFd> OpenClosedFolder(const std::string& path);

// How one step is taken.
enum class Step {
  kBeneath,  // openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS
  kPlain,    // openat with O_NOFOLLOW, where the kernel is older than 5.6 or a sandbox has no openat2
};
// What this process can do, found out by trying.
Step BestStep();
std::unique_ptr<FileSystem> MakePrivateFileSystem(Step step);

// FileSystem::CheckNotPlanted of the real one, for what others may share.
Status CheckNotPlanted(const std::string& path);

}  // namespace kedge::os
