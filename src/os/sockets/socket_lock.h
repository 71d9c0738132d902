// The right to listen at a path (unix_socket.h), held without listening: while it lives nobody else begins to, so that what
// belongs to whoever listened there can be looked at and removed.
#pragma once

#include <string>

#include "base/status.h"
#include "os/files/unique_fd.h"

namespace kedge::os {

class SocketLock {
 public:
  // kBusy: a live process listens there. kPermission: the folder is not this user's alone.
  static Result<SocketLock> Take(const std::string& path);
  SocketLock(SocketLock&&) = default;
  SocketLock& operator=(SocketLock&&) = delete;
  // The lock's file goes where it was not there before.
  ~SocketLock();

  // Removes what is left at the path, the lock's file last. Others may have the path from then on.
  Status RemoveSocket();

 private:
  SocketLock(UniqueFd lock, std::string path, bool was_there)
      : lock_(std::move(lock)), path_(std::move(path)), was_there_(was_there) {}

  UniqueFd lock_;
  std::string path_;  // of the socket
  bool was_there_ = true;
};

}  // namespace kedge::os
