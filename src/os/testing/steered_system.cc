// The wrapped SystemFileSystem(). See steered_system.h.
#include "os/testing/faulty_file_system.h"
#include "os/testing/interposed_file_system.h"
#include "os/testing/steering.h"

#include <cstdlib>

// What the linker's --wrap=_ZN5kedge2os16SystemFileSystemEv calls them.
kedge::os::FileSystem& RealSystemFileSystem() asm("__real__ZN5kedge2os16SystemFileSystemEv");
kedge::os::FileSystem& SteeredSystemFileSystem() asm("__wrap__ZN5kedge2os16SystemFileSystemEv");

kedge::os::FileSystem& SteeredSystemFileSystem() {
  using namespace kedge::os::testing;
  static auto* const plan = new FaultPlan;
  static auto* const steering = new Steering(std::getenv(kSteeringVariable), plan);
  static auto* const faulty = new FaultyFileSystem(RealSystemFileSystem(), *plan);
  static auto* const steered = new InterposedFileSystem(*faulty, [](Call, const std::string&) {
    steering->Look();
    return Interposition::kPass;
  });
  return *steered;
}
