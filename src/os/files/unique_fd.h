// An open file descriptor with one owner.
#pragma once

#include <utility>

#include "base/status.h"

namespace kedge::os {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  // Closes what is held. Errors of close are lost: files that were written are closed through File::Close.
  void Reset(int fd = -1);

 private:
  int fd_ = -1;
};

// Another descriptor (close-on-exec) of the same open file.
Result<UniqueFd> DuplicateDescriptor(int fd);

}  // namespace kedge::os
