// A file that is read and written past the page cache, where that is worth it: no copy, and no memory that nobody counts.
#pragma once

#include <memory>

#include "os/files/file_system.h"

namespace kedge::os {

// The same file, for one who transfers much at a time. What has at least `least_bytes`, and lies aligned in memory and in the
// file (kDirectAlignmentBytes), goes past the page cache, as far as it fills whole blocks; all else goes through it, as does
// everything where the file system has no O_DIRECT. `flags` are those that `file` was opened with, without what creates. A file
// that has another one's name by now is never mixed with it.
std::unique_ptr<File> PastCache(FileSystem& fs, std::unique_ptr<File> file, OpenFlags flags, size_t least_bytes);

}  // namespace kedge::os
