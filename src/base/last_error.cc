#include "base/last_error.h"

#include <string>

namespace kedge {
namespace {

thread_local std::string last_message;

}  // namespace

int Report(const Status& status) noexcept {
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

const char* LastErrorMessage() noexcept {
  return last_message.c_str();
}

}  // namespace kedge
