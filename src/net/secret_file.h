// A secret in a file: 64 hexadecimal digits, for its user alone.
#pragma once

#include <string>

#include "base/status.h"
#include "net/authentication.h"

namespace kedge::net {

// kPermission: others may read or change the file. kCorrupt: it holds no secret.
Result<Secret> ReadSecret(const std::string& path);
// As ReadSecret; a new one where there is no such file.
Result<Secret> ReadOrMakeSecret(const std::string& path);

}  // namespace kedge::net
