// What an application asks about errors and versions.
#include "base/last_error.h"
#include "kedge/kedge.h"

const char* kedge_error_message(void) {
  return kedge::LastErrorMessage();
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
  return kedge::Report(status, message);
}
