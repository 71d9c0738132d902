// What kind of storage lies under a folder, in one line that is the same for the same kind of device on another node: what a
// calibration is valid for ([VeloC] IV-C calibrates each device type once, on one representative node).
#pragma once

#include <string>

namespace kedge::os {

// File system and hardware: "ext4, Example SSD 9000, 894 GiB, solid state"; a network file system by its source; memory by
// processor and size: "tmpfs, Example CPU, 8 processors, 64 GiB". No serial numbers and no device numbers, so that equal nodes
// say the same. Printable ASCII, at most 255 characters; where nothing can be found out, as much as there is. `folder` need not
// exist yet. `root` is for tests: where /proc and /sys are looked for.
std::string DescribeStorage(const std::string& folder, const std::string& root = "");

}  // namespace kedge::os
