#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/sockets/socket_lock.h"
#include "os/sockets/unix_address.h"
#include "os/sockets/unix_socket.h"

namespace kedge::os {
namespace {

constexpr int kBacklog = 1024;

Status CheckFolder(const std::string& folder) {
  KEDGE_RETURN_IF_ERROR(MakeFolders(PrivateFileSystem(), folder, 0700, false));
  KEDGE_ASSIGN_OR_RETURN(const FileInfo info, PrivateFileSystem().Stat(folder));
  if (info.user_id == geteuid() && (info.mode & 077) == 0) return Status::Ok();
  return Status(Code::kPermission, fmt::format("{} must be a folder of user {} with mode 0700; found user {} and mode {:04o}",
                                               folder, geteuid(), info.user_id, info.mode));
}

bool IsNameOf(const std::string& path, int fd) {
  struct stat opened {};
  const auto named = PrivateFileSystem().Stat(path);
  return fstat(fd, &opened) == 0 && named.ok() && named->inode == opened.st_ino && named->device == opened.st_dev;
}

// The lock of the file at `path`, which a previous holder may be removing at this moment: the file that was locked must
// still be the one that has the name.
Result<UniqueFd> TakeLock(const std::string& path) {
  for (;;) {
    KEDGE_ASSIGN_OR_RETURN(UniqueFd fd, OpenPrivate(path, O_RDWR | O_CREAT));
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
  KEDGE_RETURN_IF_ERROR(UnlinkIfPresent(PrivateFileSystem(), path));
  KEDGE_ASSIGN_OR_RETURN(const UnixAddress address, UnixAddress::Of(path));
  // The folder keeps others out already; the mode says the same of the socket.
  if (fchmod(fd.get(), 0600) != 0 || bind(fd.get(), address.get(), address.bytes()) != 0) {
    return Status::FromErrno(errno, "bind " + path);
  }
  if (listen(fd.get(), kBacklog) != 0) return Status::FromErrno(errno, "listen " + path);
  KEDGE_ASSIGN_OR_RETURN(const FileInfo info, PrivateFileSystem().Stat(path));
  return UnixListener(std::move(lock), std::move(fd), info.inode, path, limits);
}

bool UnixListener::OwnsLockFile() const {
  return lock_.valid() && IsNameOf(path_ + ".lock", lock_.get());
}

bool UnixListener::IsReachable() const {
  const auto info = PrivateFileSystem().Stat(path_);
  return OwnsLockFile() && info.ok() && info->inode == socket_inode_;
}

UnixListener::~UnixListener() {
  // While its lock is held nobody else puts a socket there; but where folder and lock file were removed under us,
  // another listener may have made its own.
  if (!OwnsLockFile()) return;
  (void)PrivateFileSystem().Unlink(path_);
  (void)PrivateFileSystem().Unlink(path_ + ".lock");
}

Result<SocketLock> SocketLock::Take(const std::string& path) {
  KEDGE_RETURN_IF_ERROR(CheckFolder(ParentPath(path)));
  const bool was_there = PrivateFileSystem().Stat(path + ".lock").ok();
  KEDGE_ASSIGN_OR_RETURN(UniqueFd lock, TakeLock(path + ".lock"));
  return SocketLock(std::move(lock), path, was_there);
}

SocketLock::~SocketLock() {
  if (lock_.valid() && !was_there_ && IsNameOf(path_ + ".lock", lock_.get())) (void)PrivateFileSystem().Unlink(path_ + ".lock");
}

Status SocketLock::RemoveSocket() {
  KEDGE_RETURN_IF_ERROR(UnlinkIfPresent(PrivateFileSystem(), path_));
  return UnlinkIfPresent(PrivateFileSystem(), path_ + ".lock");
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
