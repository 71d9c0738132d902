// The wrapped SystemFileSystem() and PrivateFileSystem(), with one plan of faults. See steering.h.
#include "os/testing/faulty_file_system.h"
#include "os/testing/interposed_file_system.h"
#include "os/testing/steering.h"

#include <cstdlib>

// What the linker's --wrap=_ZN5kedge2os16SystemFileSystemEv, and the same of PrivateFileSystem, calls them.
kedge::os::FileSystem& RealSystemFileSystem() asm("__real__ZN5kedge2os16SystemFileSystemEv");
kedge::os::FileSystem& SteeredSystemFileSystem() asm("__wrap__ZN5kedge2os16SystemFileSystemEv");
kedge::os::FileSystem& RealPrivateFileSystem() asm("__real__ZN5kedge2os17PrivateFileSystemEv");
kedge::os::FileSystem& SteeredPrivateFileSystem() asm("__wrap__ZN5kedge2os17PrivateFileSystemEv");

namespace {

using namespace kedge::os;
using namespace kedge::os::testing;

// For ever, as what is wrapped.
FaultPlan& Plan() {
  static auto* const plan = new FaultPlan;
  return *plan;
}

FileSystem& Steered(FileSystem& wrapped) {
  static auto* const steering = new Steering(std::getenv(kSteeringVariable), &Plan());
  auto* const faulty = new FaultyFileSystem(wrapped, Plan());
  return *new InterposedFileSystem(*faulty, [](Call, const std::string&) {
    steering->Look();
    return Interposition::kPass;
  });
}

}  // namespace

uint64_t kedge::os::testing::SteeredFaults() {
  return Plan().faults();
}

FileSystem& SteeredSystemFileSystem() {
  static FileSystem& steered = Steered(RealSystemFileSystem());
  return steered;
}

FileSystem& SteeredPrivateFileSystem() {
  static FileSystem& steered = Steered(RealPrivateFileSystem());
  return steered;
}
