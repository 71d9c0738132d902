// What a system call that has just failed leaves in errno, as a Status. Any thread.
#pragma once

#include <cerrno>
#include <string>

#include "base/status.h"

namespace kedge::os {

inline Status Failed(const char* call) {
  return Status::FromErrno(errno, call);
}
inline Status Failed(const char* call, const std::string& path) {
  return Status::FromErrno(errno, std::string(call) + " " + path);
}

}  // namespace kedge::os
