#include "base/status.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace kedge {

const char* CodeName(Code code) {
  static constexpr const char* kNames[] = {
      "ok",       "invalid argument",    "not found",  "already exists", "corrupt", "unsupported",
      "no space", "input/output error",  "permission", "unavailable",    "timeout", "mismatch",
      "busy",     "failed precondition", "incomplete", "internal",       "lost"};
  static_assert(std::size(kNames) == static_cast<size_t>(kCodeLast) + 1);
  const auto index = static_cast<size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

Status::Status(Code code, std::string message) : state_(std::make_shared<const State>(State{code, 0, std::move(message)})) {
  assert(code != Code::kOk);
}

Status::Status(Code code, std::string message, int errno_value)
    : state_(std::make_shared<const State>(State{code, errno_value, std::move(message)})) {
  assert(code != Code::kOk);
}

Status Status::FromErrno(int errno_value, const std::string& what) {
  Code code = Code::kIo;
  switch (errno_value) {
    case ENOSPC:
    case EDQUOT:
    case ENOMEM: code = Code::kNoSpace; break;
    case ENOENT:
    case ENOTDIR: code = Code::kNotFound; break;
    case EEXIST: code = Code::kAlreadyExists; break;
    case EACCES:
    case EPERM:
    case EROFS: code = Code::kPermission; break;
    case EINVAL: code = Code::kInvalidArgument; break;
    case ETIMEDOUT: code = Code::kTimeout; break;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE: code = Code::kUnavailable; break;
    case ENOSYS:
    case EOPNOTSUPP: code = Code::kUnsupported; break;
    default: break;
  }
  Status status;
  status.state_ = std::make_shared<const State>(State{code, errno_value, what + ": " + std::strerror(errno_value)});
  return status;
}

const std::string& Status::message() const {
  static const std::string* const kEmpty = new std::string;
  return state_ ? state_->message : *kEmpty;
}

std::string Status::ToString() const {
  return ok() ? "ok" : std::string(CodeName(code())) + ": " + message();
}

Status Status::WithContext(const std::string& context) const {
  if (ok()) return *this;
  Status status;
  status.state_ = std::make_shared<const State>(State{state_->code, state_->errno_value, context + ": " + state_->message});
  return status;
}

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "kedge: %s:%d: invariant broken: %s\n", file, line, condition);
  std::abort();
}

}  // namespace kedge
