#include "os/testing/other_user.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/status.h"
#include "os/files/files.h"

namespace kedge::os::testing {

bool CanPlayAnotherUser() {
  return geteuid() == 0;
}

bool AsAnotherUser(const std::function<bool()>& act) {
  const pid_t child = fork();
  if (child == 0) {
    const bool is_other =
        setresgid(kOtherUser, kOtherUser, kOtherUser) == 0 && setresuid(kOtherUser, kOtherUser, kOtherUser) == 0;
    umask(0);
    _exit(is_other && act() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

SharedFolder::SharedFolder(const std::string& parent) : path_((parent.empty() ? "/tmp" : parent) + "/kedge-test-XXXXXX") {
  KEDGE_CHECK(mkdtemp(path_.data()) != nullptr && chmod(path_.c_str(), 01777) == 0);
}

SharedFolder::~SharedFolder() {
  static_cast<void>(RemoveTree(SystemFileSystem(), path_));
}

}  // namespace kedge::os::testing
