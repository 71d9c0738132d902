// An owner's secret in a file: 64 hexadecimal digits, for its user alone.
#pragma once

#include <string>

#include "base/status.h"
#include "net/authentication.h"

namespace kedge::buffer {

// kPermission: others may read or change the file. kCorrupt: it holds no secret.
Result<net::Secret> ReadSecret(const std::string& path);
// As ReadSecret; a new one where there is no such file.
Result<net::Secret> ReadOrMakeSecret(const std::string& path);

}  // namespace kedge::buffer
