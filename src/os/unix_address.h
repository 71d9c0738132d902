// The address of a unix socket, also for paths longer than sun_path (108 bytes). Internal to unix_socket.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "base/status.h"
#include "os/unique_fd.h"

namespace kedge::os {

// Keeps the folder open while it lives: a long path is reached as /proc/self/fd/<folder>/<name>.
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
