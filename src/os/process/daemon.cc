// SpawnDaemon. Two nested clone(CLONE_VM | CLONE_VFORK), as posix_spawn does one: our thread stands still until the
// middle process has ended, the middle process until the daemon has called execve (or failed). Nothing is copied, and
// the daemon is an orphan at once.
//
// Between clone and execve the child shares our memory: only system calls, no allocation, no locks, no errno tricks
// (errno is ours, and restored by nobody: we report it through `Launch`). The middle process is cloned with exit signal
// 0, so that the application gets no SIGCHLD and does not see it in wait().
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/process/exec_words.h"
#include "os/process/process.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

// The children run on their own stacks inside our address space; sanitizers must not track those frames.
#define KEDGE_NO_SANITIZE __attribute__((no_sanitize("address", "thread", "undefined")))

#if defined(__SANITIZE_THREAD__)
extern "C" int __clone(int (*run)(void*), void* stack, int flags, void* argument, ...);
#endif

namespace kedge::os {
namespace {

// ThreadSanitizer intercepts clone() as if the child had memory of its own, and then takes our threads for finished. The
// name under which glibc exports it as well goes past that.
#if defined(__SANITIZE_THREAD__)
constexpr auto* kClone = &::__clone;
#else
constexpr auto* kClone = &::clone;
#endif

constexpr size_t kStackBytes = 256 * 1024;
constexpr int kFirstPassedDescriptor = 3;
constexpr int kDescriptorsMax = 64;

// What the children read and write. Lives in the caller's frame, which stands still meanwhile.
struct Launch {
  const char* program;
  char* const* arguments;
  char* const* environment;
  char* stack_top;  // of the daemon
  int stdin_fd;
  int log_fd;
  int descriptors[kDescriptorsMax];  // all of them above the range that they are moved to
  int descriptor_count;
  pid_t daemon_id;
  int error;
  const char* failed_call;
};

KEDGE_NO_SANITIZE int Fail(Launch* launch, const char* call) {
  launch->error = errno;
  launch->failed_call = call;
  return 127;
}

// The system call itself: glibc refuses its own two signals (make leaves them ignored for what it starts), and a sanitizer
// would note the change for this process.
KEDGE_NO_SANITIZE void ResetSignals() {
  constexpr size_t kSignalSetBytes = 8;
  volatile char defaults[64];  // the kernel's struct sigaction is smaller, and all zero it says SIG_DFL
  for (volatile char& byte : defaults) byte = 0;
  for (int signal = 1; signal < _NSIG; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP) syscall(SYS_rt_sigaction, signal, defaults, nullptr, kSignalSetBytes);
  }
}

KEDGE_NO_SANITIZE void CloseFrom(int first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  const long limit = sysconf(_SC_OPEN_MAX);
  for (int fd = first; fd < static_cast<int>(limit); ++fd) close(fd);
}

KEDGE_NO_SANITIZE int RunDaemon(void* argument) {
  auto* launch = static_cast<Launch*>(argument);
  ResetSignals();
  if (setsid() < 0) return Fail(launch, "setsid");
  if (chdir("/") != 0) return Fail(launch, "chdir /");
  umask(077);
  // The kernel cuts this down to the cpuset: a launcher's binding of its rank is not the agent's.
  unsigned long all_cpus[128];
  auto* words = static_cast<volatile unsigned long*>(all_cpus);
  for (size_t i = 0; i < 128; ++i) words[i] = ~0ul;
  syscall(SYS_sched_setaffinity, 0, sizeof all_cpus, all_cpus);
  if (dup2(launch->stdin_fd, 0) < 0 || dup2(launch->log_fd, 1) < 0 || dup2(launch->log_fd, 2) < 0) return Fail(launch, "dup2");
  for (int i = 0; i < launch->descriptor_count; ++i) {
    if (dup2(launch->descriptors[i], kFirstPassedDescriptor + i) < 0) return Fail(launch, "dup2");
  }
  CloseFrom(kFirstPassedDescriptor + launch->descriptor_count);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(launch->program, launch->arguments, launch->environment);
  return Fail(launch, "execve");
}

KEDGE_NO_SANITIZE int RunMiddle(void* argument) {
  auto* launch = static_cast<Launch*>(argument);
  launch->daemon_id = kClone(RunDaemon, launch->stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, launch);
  if (launch->daemon_id < 0) return Fail(launch, "clone");
  return 0;
}

// Two stacks in one mapping; freed when the children are gone.
class Stacks {
 public:
  Stacks() : memory_(mmap(nullptr, 2 * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0)) {}
  ~Stacks() {
    if (valid()) munmap(memory_, 2 * kStackBytes);
  }
  bool valid() const { return memory_ != MAP_FAILED; }
  char* top(int which) const { return static_cast<char*>(memory_) + (which + 1) * kStackBytes; }

 private:
  void* memory_;
};

// A duplicate above the range that the daemon's descriptors are moved to, so that moving never overwrites one.
Result<UniqueFd> DuplicateHigh(int fd) {
  UniqueFd duplicate(fcntl(fd, F_DUPFD_CLOEXEC, kFirstPassedDescriptor + kDescriptorsMax));
  if (!duplicate.valid()) return Status::FromErrno(errno, fmt::format("duplicate descriptor {}", fd));
  return duplicate;
}

Result<UniqueFd> OpenNull(int flags) {
  const UniqueFd fd(open("/dev/null", flags | O_CLOEXEC | O_NOCTTY));
  if (!fd.valid()) return Status::FromErrno(errno, "open /dev/null");
  return DuplicateHigh(fd.get());
}

Result<UniqueFd> OpenLog(const std::string& path) {
  if (path.empty()) return OpenNull(O_WRONLY);
  KEDGE_ASSIGN_OR_RETURN(const UniqueFd fd, OpenPrivateLog(path));
  return DuplicateHigh(fd.get());
}

// No signal handler of the application may run in a child: it would run in our memory.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

Status CloneBoth(Launch& launch) {
  const Stacks stacks;
  if (!stacks.valid()) return Status::FromErrno(errno, "mmap a stack");
  launch.stack_top = stacks.top(0);
  int cancel_state = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  Status status;
  {
    const SignalsBlocked blocked;
    const pid_t middle = kClone(RunMiddle, stacks.top(1), CLONE_VM | CLONE_VFORK, &launch);
    if (middle < 0) status = Status::FromErrno(errno, "clone");
    if (middle > 0) {
      while (waitpid(middle, nullptr, __WCLONE) < 0 && errno == EINTR) {
      }
    }
  }
  pthread_setcancelstate(cancel_state, nullptr);
  return status;
}

}  // namespace

Result<ProcessIdentity> SpawnDaemon(const DaemonOptions& options) {
  if (options.descriptors.size() > kDescriptorsMax) return Status(Code::kInvalidArgument, "too many descriptors for a daemon");
  std::vector<std::string> arguments = {options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment = EnvironmentWith(options.set, options.unset);
  const std::vector<char*> argument_pointers = PointersTo(arguments);
  const std::vector<char*> environment_pointers = PointersTo(environment);

  KEDGE_ASSIGN_OR_RETURN(const UniqueFd stdin_fd, OpenNull(O_RDONLY));
  KEDGE_ASSIGN_OR_RETURN(const UniqueFd log_fd, OpenLog(options.log_path));
  std::vector<UniqueFd> passed;
  Launch launch{};
  for (const int fd : options.descriptors) {
    KEDGE_ASSIGN_OR_RETURN(UniqueFd duplicate, DuplicateHigh(fd));
    launch.descriptors[launch.descriptor_count++] = duplicate.get();
    passed.push_back(std::move(duplicate));
  }
  launch.program = options.program.c_str();
  launch.arguments = argument_pointers.data();
  launch.environment = environment_pointers.data();
  launch.stdin_fd = stdin_fd.get();
  launch.log_fd = log_fd.get();

  KEDGE_RETURN_IF_ERROR(CloneBoth(launch));
  if (launch.error != 0) return Status::FromErrno(launch.error, fmt::format("start {}: {}", options.program, launch.failed_call));
  // It may have ended already; then its identity is only its id.
  const auto identity = IdentityOf(launch.daemon_id);
  return identity.ok() ? *identity : ProcessIdentity{launch.daemon_id, 0};
}

}  // namespace kedge::os
