// While it is there, agents that a test starts are linked with a file system whose faults the test steers
// (os/testing/steering.h). Made before the first of them starts.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "os/testing/steering.h"

namespace kedge::testing {

class SteeredAgents {
 public:
  // `steering`: the path of a file that is not there yet.
  explicit SteeredAgents(std::string steering) : steering_(std::move(steering)) {
    setenv("KEDGE_AGENT", (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "steered_agent").c_str(), 1);
    setenv(os::testing::kSteeringVariable, steering_.c_str(), 1);
  }
  ~SteeredAgents() {
    Mend();
    unsetenv("KEDGE_AGENT");
    unsetenv(os::testing::kSteeringVariable);
  }
  SteeredAgents(const SteeredAgents&) = delete;
  SteeredAgents& operator=(const SteeredAgents&) = delete;

  void Steer(const std::vector<os::testing::FaultRule>& rules) const { os::testing::Steer(steering_, rules); }
  // Such calls fail on paths that contain that.
  void Fail(const std::string& path, os::testing::CallSet calls, int errno_value) const {
    os::testing::FaultRule rule;
    rule.calls = calls;
    rule.path_contains = path;
    rule.errno_value = errno_value;
    Steer({rule});
  }
  void Mend() const { os::testing::StopSteering(steering_); }

 private:
  const std::string steering_;
};

}  // namespace kedge::testing
