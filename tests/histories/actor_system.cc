// See actor_system.h. Stands in for os::SystemFileSystem by the linker's --wrap, as src/os/testing/steered_system.cc does.
#include "tests/histories/actor_system.h"

#include <cstdlib>

#include "os/testing/faulty_file_system.h"
#include "os/testing/interposed_file_system.h"
#include "os/testing/steering.h"

// What the linker's --wrap=_ZN5kedge2os16SystemFileSystemEv calls them.
kedge::os::FileSystem& RealSystemFileSystem() asm("__real__ZN5kedge2os16SystemFileSystemEv");
kedge::os::FileSystem& ActorSystemFileSystem() asm("__wrap__ZN5kedge2os16SystemFileSystemEv");

namespace kedge::histories {

os::testing::FaultPlan& OwnFaults() {
  static auto* const plan = new os::testing::FaultPlan;
  return *plan;
}

}  // namespace kedge::histories

kedge::os::FileSystem& ActorSystemFileSystem() {
  using namespace kedge::os::testing;
  static auto* const plan = new FaultPlan;
  static auto* const steering = new Steering(std::getenv(kSteeringVariable), plan);
  static auto* const faulty = new FaultyFileSystem(RealSystemFileSystem(), *plan);
  static auto* const own = new FaultyFileSystem(*faulty, kedge::histories::OwnFaults());
  static auto* const steered = new InterposedFileSystem(*own, [](Call, const std::string&) {
    steering->Look();
    return Interposition::kPass;
  });
  return *steered;
}
