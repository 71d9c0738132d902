// A real folder for one test: its own, and gone when the test ends, also when it fails.
#pragma once

#include <string>

namespace kedge::os::testing {

class TemporaryFolder {
 public:
  // Under $TMPDIR or /tmp; `parent` names another place (/dev/shm). Aborts when it cannot be made.
  explicit TemporaryFolder(const std::string& parent = {});
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace kedge::os::testing
