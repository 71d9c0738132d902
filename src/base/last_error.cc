#include "base/last_error.h"

#include <string>

namespace kedge {
namespace {

thread_local std::string last_message;
thread_local int last_number = 0;

}  // namespace

int Report(const Status& status) noexcept {
  last_number = status.errno_value();
  try {
    last_message = status.message();
  } catch (...) {
    last_message.clear();
  }
  return static_cast<int>(status.code());
}

int Report(int code, const char* message) noexcept {
  return Guarded([&] { return code == 0 ? Status::Ok() : Status(static_cast<Code>(code), message == nullptr ? "" : message); });
}

int LastErrorNumber() noexcept {
  return last_number;
}

const char* LastErrorMessage() noexcept {
  return last_message.c_str();
}

}  // namespace kedge
