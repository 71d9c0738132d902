#include "os/testing/temporary_folder.h"

#include <cstdlib>

#include "base/status.h"
#include "os/files/files.h"

namespace kedge::os::testing {

TemporaryFolder::TemporaryFolder(const std::string& parent) {
  const char* variable = std::getenv("TMPDIR");
  const std::string folder = !parent.empty() ? parent : variable != nullptr && *variable != '\0' ? variable : "/tmp";
  path_ = folder + "/kedge-test-XXXXXX";
  KEDGE_CHECK(mkdtemp(path_.data()) != nullptr);
}

TemporaryFolder::~TemporaryFolder() {
  static_cast<void>(RemoveTree(SystemFileSystem(), path_));
}

}  // namespace kedge::os::testing
