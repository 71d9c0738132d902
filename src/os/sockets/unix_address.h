// The address of a unix socket in a folder that is this user's alone (private_files.h), however long its path. Internal to
// unix_socket.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "base/status.h"
#include "os/files/unique_fd.h"

namespace kedge::os {

// Keeps the folder open while it lives: the socket is reached as /proc/self/fd/<folder>/<name>, so through the folder that was
// looked at, and whatever its path, which sun_path would cut at 108 bytes.
class UnixAddress {
 public:
  static Result<UnixAddress> Of(const std::string& path);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t bytes() const { return sizeof address_; }

 private:
  UnixAddress() = default;
  sockaddr_un address_{};
  UniqueFd folder_;
};

}  // namespace kedge::os
