#include "os/unix_address.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "os/files.h"

namespace kedge::os {

Result<UnixAddress> UnixAddress::Of(const std::string& path) {
  UnixAddress address;
  address.address_.sun_family = AF_UNIX;
  std::string reachable = path;
  if (reachable.size() >= sizeof address.address_.sun_path) {
    address.folder_.Reset(open(ParentPath(path).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!address.folder_.valid()) return Status::FromErrno(errno, "open " + ParentPath(path));
    reachable = fmt::format("/proc/self/fd/{}/{}", address.folder_.get(), BaseName(path));
  }
  if (path.empty() || reachable.size() >= sizeof address.address_.sun_path) {
    return Status(Code::kInvalidArgument, fmt::format("'{}' cannot be a socket's path: its name is too long or empty", path));
  }
  std::memcpy(address.address_.sun_path, reachable.c_str(), reachable.size() + 1);
  return address;
}

}  // namespace kedge::os
