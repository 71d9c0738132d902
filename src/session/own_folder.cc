#include "session/own_folder.h"

#include <fmt/format.h>

#include "os/files/files.h"
#include "os/machine/machine.h"

namespace kedge {

std::string OwnFolder(const std::string& path, const std::string& node) {
  return os::JoinPath(path, fmt::format("kedge-{}-{}", os::EffectiveUser(), node));
}

}  // namespace kedge
