// The permission bits of an open file.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "os/files/file_system.h"

namespace kedge::os {

// Gives the file exactly these bits, whatever the umask is: through its descriptor, so that nothing which has taken its name
// meanwhile gets them; where it has none (test doubles), through `fs` by its path.
Status SetFileMode(FileSystem& fs, File& file, uint32_t mode);

}  // namespace kedge::os
