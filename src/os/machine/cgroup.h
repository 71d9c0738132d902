// Reading the control groups that this process is in, version 1 and 2. Internal to machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kedge::os {

// The folders of this process's group for a controller ("memory", "cpu"), its own first, then its parents up to the
// root of the mount. `version` becomes 1 or 2. Empty when there is none.
std::vector<std::string> CgroupFolders(const std::string& controller, const std::string& proc_folder, const std::string& root,
                                       int* version);

// The tightest processor quota on the way up, in whole processors rounded up.
std::optional<int> CgroupCpuQuota(const std::string& proc_folder, const std::string& root);

}  // namespace kedge::os
