#include "os/files/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace kedge::os {

void UniqueFd::Reset(int fd) {
  // Linux frees the number even when close fails, also with EINTR; so it is never called again.
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

Result<UniqueFd> DuplicateDescriptor(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return Status::FromErrno(errno, "duplicate a descriptor");
  return copy;
}

}  // namespace kedge::os
