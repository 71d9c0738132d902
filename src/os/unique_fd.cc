#include "os/unique_fd.h"

#include <unistd.h>

namespace kedge::os {

void UniqueFd::Reset(int fd) {
  // Linux frees the number even when close fails, also with EINTR; so it is never called again.
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

}  // namespace kedge::os
