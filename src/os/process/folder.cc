#include "os/process/folder.h"

#include <unistd.h>

#include "os/files/failed_call.h"

namespace kedge::os {

Result<std::string> CurrentFolder() {
  char path[4096];
  if (getcwd(path, sizeof path) == nullptr) return Failed("getcwd");
  return std::string(path);
}

Status EnterFolder(const std::string& path) {
  return chdir(path.c_str()) == 0 ? Status::Ok() : Failed("chdir", path);
}

}  // namespace kedge::os
