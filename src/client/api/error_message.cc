// See error_message.h.
#include "client/api/error_message.h"

#include <string>

#include "kedge/kedge.h"

namespace kedge::client {
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

}  // namespace kedge::client

const char* kedge_error_message(void) {
  return kedge::client::last_message.c_str();
}

const char* kedge_status_name(int status) {
  if (status < KEDGE_OK || status > KEDGE_ERROR_LOST) return "unknown";
  return kedge::CodeName(static_cast<kedge::Code>(status));
}

#define KEDGE_TEXT_INNER(number) #number
#define KEDGE_TEXT(number) KEDGE_TEXT_INNER(number)

const char* kedge_version_string(void) {
  return KEDGE_TEXT(KEDGE_VERSION_MAJOR) "." KEDGE_TEXT(KEDGE_VERSION_MINOR) "." KEDGE_TEXT(KEDGE_VERSION_PATCH);
}

int kedge_report_error(int status, const char* message) {
  return kedge::client::Guarded([&] {
    return status == KEDGE_OK ? kedge::Status::Ok()
                              : kedge::Status(static_cast<kedge::Code>(status), message == nullptr ? "" : message);
  });
}
