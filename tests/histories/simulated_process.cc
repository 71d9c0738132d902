// See simulated_process.h. The names are what the linker's --wrap calls the functions of base/clock.h, os/files/file_system.h,
// os/process/process.h, os/machine/machine.h and of the C library.
#include "tests/histories/simulated_process.h"

#include <time.h>

#include "os/machine/machine.h"
#include "os/process/process.h"

namespace kedge::histories {
namespace {

thread_local SimulatedProcess* current = nullptr;
constexpr uint64_t kStartTicks = 1;
constexpr int64_t kWallTimeNs = 1'700'000'000'000'000'000;  // when the virtual clock began

}  // namespace

SimulatedProcess::SimulatedProcess(SimulatedMachine& machine, int id, int node, uint64_t pid_namespace)
    : machine_(machine), id_(id), node_(node), pid_namespace_(pid_namespace), file_system_(machine.disk(), faults_) {
  machine_.living().insert(id_);
}

SimulatedProcess::~SimulatedProcess() {
  machine_.living().erase(id_);
}

void SimulatedProcess::Enter(SimulatedProcess* process) {
  current = process;
}

SimulatedProcess* SimulatedProcess::Current() {
  return current;
}

int64_t SimulatedProcess::WallTimeNs() const {
  return kWallTimeNs + machine_.NowNs() + machine_.ClockStepOf(node_).count();
}

void SimulatedProcess::Die() {
  faults_.Clear();
  faults_.KillAfter(0);
  machine_.living().erase(id_);
}

}  // namespace kedge::histories

using kedge::histories::SimulatedProcess;

kedge::os::FileSystem& RealFileSystem() asm("__real__ZN5kedge2os16SystemFileSystemEv");
kedge::os::FileSystem& FileSystemOfThread() asm("__wrap__ZN5kedge2os16SystemFileSystemEv");
kedge::os::FileSystem& FileSystemOfThread() {
  SimulatedProcess* const process = SimulatedProcess::Current();
  return process == nullptr ? RealFileSystem() : process->file_system();
}

const kedge::Clock& RealClock() asm("__real__ZN5kedge11SystemClockEv");
const kedge::Clock& ClockOfThread() asm("__wrap__ZN5kedge11SystemClockEv");
const kedge::Clock& ClockOfThread() {
  SimulatedProcess* const process = SimulatedProcess::Current();
  return process == nullptr ? RealClock() : process->machine();
}

int64_t RealWallTimeNs() asm("__real__ZN5kedge10WallTimeNsEv");
int64_t WallTimeNsOfThread() asm("__wrap__ZN5kedge10WallTimeNsEv");
int64_t WallTimeNsOfThread() {
  const SimulatedProcess* const process = SimulatedProcess::Current();
  return process == nullptr ? RealWallTimeNs() : process->WallTimeNs();
}

kedge::os::ProcessIdentity RealOwnIdentity() asm("__real__ZN5kedge2os11OwnIdentityEv");
kedge::os::ProcessIdentity IdentityOfThread() asm("__wrap__ZN5kedge2os11OwnIdentityEv");
kedge::os::ProcessIdentity IdentityOfThread() {
  SimulatedProcess* const process = SimulatedProcess::Current();
  if (process == nullptr) return RealOwnIdentity();
  return {process->id(), kedge::histories::kStartTicks};
}

// Of ids of another namespace nothing is seen.
bool RealIsAlive(const kedge::os::ProcessIdentity&) asm("__real__ZN5kedge2os7IsAliveERKNS0_15ProcessIdentityE");
bool IsAliveForThread(const kedge::os::ProcessIdentity&) asm("__wrap__ZN5kedge2os7IsAliveERKNS0_15ProcessIdentityE");
bool IsAliveForThread(const kedge::os::ProcessIdentity& identity) {
  SimulatedProcess* const process = SimulatedProcess::Current();
  if (process == nullptr) return RealIsAlive(identity);
  return process->pid_namespace() == 0 && process->machine().living().contains(identity.process_id);
}

// Which namespace the thread's process ids mean something in.
uint64_t RealPidNamespace() asm("__real__ZN5kedge2os12PidNamespaceEv") __attribute__((weak));
uint64_t PidNamespaceOfThread() asm("__wrap__ZN5kedge2os12PidNamespaceEv");
uint64_t PidNamespaceOfThread() {
  SimulatedProcess* const process = SimulatedProcess::Current();
  if (process == nullptr) return RealPidNamespace == nullptr ? 0 : RealPidNamespace();
  return 1 + process->pid_namespace();
}

// What std::this_thread::sleep_for calls.
extern "C" int __real_nanosleep(const timespec* request, timespec* remaining);
extern "C" int __wrap_nanosleep(const timespec* request, timespec* remaining) {
  SimulatedProcess* const process = SimulatedProcess::Current();
  if (process == nullptr) return __real_nanosleep(request, remaining);
  process->machine().Pass(std::chrono::seconds(request->tv_sec) + std::chrono::nanoseconds(request->tv_nsec));
  return 0;
}
