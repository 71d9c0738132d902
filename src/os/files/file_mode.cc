#include "os/files/file_mode.h"

#include <sys/stat.h>

#include "os/files/failed_call.h"

namespace kedge::os {

Status SetFileMode(FileSystem& fs, File& file, uint32_t mode) {
  if (file.descriptor() < 0) return fs.Chmod(file.path(), mode);
  return fchmod(file.descriptor(), static_cast<mode_t>(mode)) == 0 ? Status::Ok() : Failed("chmod", file.path());
}

}  // namespace kedge::os
