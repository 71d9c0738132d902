// The folder of this process, where relative paths begin. For our own programs only.
#pragma once

#include <string>

#include "base/status.h"

namespace kedge::os {

Result<std::string> CurrentFolder();
Status EnterFolder(const std::string& path);

}  // namespace kedge::os
