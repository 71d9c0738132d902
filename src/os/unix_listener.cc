#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "os/files.h"
#include "os/unix_address.h"
#include "os/unix_socket.h"

namespace kedge::os {
namespace {

constexpr int kBacklog = 1024;

Status CheckFolder(const std::string& folder) {
  KEDGE_RETURN_IF_ERROR(MakeFolders(SystemFileSystem(), folder, 0700, false));
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) return Status::FromErrno(errno, "stat " + folder);
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0) return Status::Ok();
  return Status(Code::kPermission, fmt::format("{} must be a folder of user {} with mode 0700; found user {} and mode {:04o}",
                                               folder, geteuid(), info.st_uid, info.st_mode & 07777));
}

bool IsNameOf(const std::string& path, int fd) {
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 && named.st_ino == opened.st_ino &&
         named.st_dev == opened.st_dev;
}

// The lock of the file at `path`, which a previous holder may be removing at this moment: the file that was locked must
// still be the one that has the name.
Result<UniqueFd> TakeLock(const std::string& path) {
  for (;;) {
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.valid()) return Status::FromErrno(errno, "open " + path);
    while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return Status(Code::kBusy, fmt::format("{} is held by a live process", path));
      if (errno != EINTR) return Status::FromErrno(errno, "lock " + path);
    }
    if (IsNameOf(path, fd.get())) return fd;
  }
}

}  // namespace

Result<UnixListener> UnixListener::Listen(const std::string& path, SocketLimits limits) {
  KEDGE_RETURN_IF_ERROR(CheckFolder(ParentPath(path)));
  KEDGE_ASSIGN_OR_RETURN(UniqueFd lock, TakeLock(path + ".lock"));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::FromErrno(errno, "socket");
  // With the lock held, what is there was left by a dead process.
  KEDGE_RETURN_IF_ERROR(UnlinkIfPresent(SystemFileSystem(), path));
  KEDGE_ASSIGN_OR_RETURN(const UnixAddress address, UnixAddress::Of(path));
  if (bind(fd.get(), address.get(), address.bytes()) != 0) return Status::FromErrno(errno, "bind " + path);
  // The folder keeps others out until the mode is set.
  if (chmod(path.c_str(), 0600) != 0) return Status::FromErrno(errno, "chmod " + path);
  if (listen(fd.get(), kBacklog) != 0) return Status::FromErrno(errno, "listen " + path);
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return Status::FromErrno(errno, "stat " + path);
  return UnixListener(std::move(lock), std::move(fd), info.st_ino, path, limits);
}

bool UnixListener::OwnsLockFile() const {
  return lock_.valid() && IsNameOf(path_ + ".lock", lock_.get());
}

bool UnixListener::IsReachable() const {
  struct stat info {};
  return OwnsLockFile() && stat(path_.c_str(), &info) == 0 && info.st_ino == socket_inode_;
}

UnixListener::~UnixListener() {
  // While its lock is held nobody else puts a socket there; but where folder and lock file were removed under us,
  // another listener may have made its own.
  if (!OwnsLockFile()) return;
  unlink(path_.c_str());
  unlink((path_ + ".lock").c_str());
}

Result<std::optional<UnixSocket>> UnixListener::Accept() {
  for (;;) {
    UniqueFd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) return std::optional<UnixSocket>(UnixSocket(std::move(fd), limits_));
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return std::optional<UnixSocket>();
    return Status::FromErrno(errno, "accept " + path_);
  }
}

}  // namespace kedge::os
