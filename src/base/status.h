// Status and Result: how every function in Kedge that can fail says so.
//
// A Status is one small value: a code, and for errors a sentence for a person that names the rank, region or path,
// what was expected, what was found and what to do. Success costs one null pointer. The codes are those of the C ABI
// (kedge/kedge.h), so that a Status crosses it unchanged. No exception crosses a layer.
#pragma once

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace kedge {

enum class Code : int {
  kOk = 0,
  kInvalidArgument = 1,      // the caller broke a contract; nothing was changed
  kNotFound = 2,             // no such version, region, file
  kAlreadyExists = 3,        // create-if-absent found one
  kCorrupt = 4,              // bytes that fail their checksum, magic or bounds
  kUnsupported = 5,          // a format version or a feature that this build or machine lacks
  kNoSpace = 6,              // ENOSPC, EDQUOT, a tier or pool that stays full
  kIo = 7,                   // any other errno from a device
  kPermission = 8,           // EACCES, EPERM, EROFS, a peer of another user
  kUnavailable = 9,          // the agent or a peer cannot be reached
  kTimeout = 10,             // a bounded wait ended; the message names who is missing
  kMismatch = 11,            // ranks, sizes, protocol or configuration disagree
  kBusy = 12,                // held by another live job or process
  kFailedPrecondition = 13,  // called in the wrong order
  kIncomplete = 14,          // part of a version is missing
  kInternal = 15,            // a broken invariant
  kLost = 16,                // there was one, and no copy of it is left
};

inline constexpr Code kCodeLast = Code::kLost;

// The code's name as printed to people, for example "no space".
const char* CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message);
  // As one that came from elsewhere (another process) with its errno; `message` is taken as it is.
  Status(Code code, std::string message, int errno_value);
  static Status Ok() { return Status(); }

  // From an errno: picks the code and appends strerror. `what` names the call and the path: "fsync /a/b".
  static Status FromErrno(int errno_value, const std::string& what);

  bool ok() const { return !state_; }
  Code code() const { return state_ ? state_->code : Code::kOk; }
  int errno_value() const { return state_ ? state_->errno_value : 0; }
  // Empty when ok.
  const std::string& message() const;
  // "ok", or "no space: fsync /a/b: No space left on device".
  std::string ToString() const;

  // The same error with `context` in front of its message; ok stays ok.
  Status WithContext(const std::string& context) const;

 private:
  struct State {
    Code code;
    int errno_value;
    std::string message;
  };
  std::shared_ptr<const State> state_;
};

// A value or the Status that says why there is none. Like std::expected, which GCC 12 lacks in C++20.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!status_.ok());
  }
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  // By value: `for (x : List().value())` keeps what it goes through.
  T value() && {
    assert(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace kedge

#define KEDGE_CONCAT_INNER(a, b) a##b
#define KEDGE_CONCAT(a, b) KEDGE_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expression` is a Status that is not ok.
#define KEDGE_RETURN_IF_ERROR(expression)          \
  do {                                             \
    ::kedge::Status kedge_status_ = (expression);  \
    if (!kedge_status_.ok()) return kedge_status_; \
  } while (0)

// KEDGE_ASSIGN_OR_RETURN(auto file, os.Open(...)): declares or assigns, or returns the error.
#define KEDGE_ASSIGN_OR_RETURN(declaration, expression) \
  KEDGE_ASSIGN_OR_RETURN_INNER(KEDGE_CONCAT(kedge_result_, __LINE__), declaration, expression)
#define KEDGE_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                         \
  if (!result.ok()) return result.status();                           \
  declaration = std::move(result).value()

// An invariant of this code, whatever callers and files hold: aborts with file, line and text when broken. In production, too.
#define KEDGE_CHECK(condition) ((condition) ? static_cast<void>(0) : ::kedge::CheckFailed(__FILE__, __LINE__, #condition))

namespace kedge {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace kedge
