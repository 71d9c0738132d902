// Another user of the machine, for tests of what he may prepare for us. Only root can play him.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace kedge::os::testing {

inline constexpr uid_t kOtherUser = 65534;  // nobody

// Whether this process may become another one: otherwise a test skips.
bool CanPlayAnotherUser();
// Runs `act` in a forked process of that user; what it returned, false when it could not be run.
bool AsAnotherUser(const std::function<bool()>& act);

// A folder below `parent` ("": the usual one) in which everybody may write, as /tmp is: root's, mode 1777. It goes with the
// object.
class SharedFolder {
 public:
  explicit SharedFolder(const std::string& parent = "");
  ~SharedFolder();
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace kedge::os::testing
