#include "os/sockets/unix_address.h"

#include <fmt/format.h>

#include <cstring>

#include "os/files/files.h"
#include "os/files/private_files.h"

namespace kedge::os {

Result<UnixAddress> UnixAddress::Of(const std::string& path) {
  UnixAddress address;
  address.address_.sun_family = AF_UNIX;
  KEDGE_ASSIGN_OR_RETURN(address.folder_, OpenClosedFolder(ParentPath(path)));
  const std::string reachable = fmt::format("/proc/self/fd/{}/{}", address.folder_.get(), BaseName(path));
  if (path.empty() || reachable.size() >= sizeof address.address_.sun_path) {
    return Status(Code::kInvalidArgument, fmt::format("'{}' cannot be a socket's path: its name is too long or empty", path));
  }
  std::memcpy(address.address_.sun_path, reachable.c_str(), reachable.size() + 1);
  return address;
}

}  // namespace kedge::os
