// Faults of a whole program's file system (an agent's, an application's), steered by another process.
//
// A program that is linked with kedge_os_steered gets the real SystemFileSystem() behind a FaultPlan (steered_system.cc).
// Before every call the steering file is looked at: while it is there, every call that one of its rules names fails; without
// it, none does. So a test fills a disk under a running program, and empties it again.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "os/testing/fault_plan.h"

namespace kedge::os::testing {

// Names the steering file of a process, and of those that it starts.
inline constexpr char kSteeringVariable[] = "KEDGE_TEST_STEERING";

// Writes the file. Of each rule calls, path_contains (no white space, not empty) and errno_value are taken.
void Steer(const std::string& steering_path, const std::vector<FaultRule>& rules);
void StopSteering(const std::string& steering_path);

// The calls of this process, which is steered itself, that were made to fail.
uint64_t SteeredFaults();

// The steered side. Thread safe.
class Steering {
 public:
  // `steering_path` null: never a fault. `plan` outlives it.
  Steering(const char* steering_path, FaultPlan* plan) : path_(steering_path == nullptr ? "" : steering_path), plan_(plan) {}
  // Brings the plan in line with the file.
  void Look();

 private:
  const std::string path_;
  FaultPlan* const plan_;
  std::mutex mutex_;
  std::string seen_;
};

}  // namespace kedge::os::testing
