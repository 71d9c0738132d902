#include "os/process/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <system_error>
#include <utility>

namespace kedge::os {

Result<std::thread> StartThread(const std::string& name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> thread = Status(Code::kUnavailable, "no thread for " + name);
  try {
    thread = std::thread([name, body = std::move(body)] {
      SetThreadName(name);
      body();
    });
  } catch (const std::system_error&) {
    // What the status says.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

Status SetThreadNice(int nice) {
  // On Linux the priority of PRIO_PROCESS belongs to the thread; 0 is the calling one.
  if (setpriority(PRIO_PROCESS, 0, nice) != 0) return Status::FromErrno(errno, "setpriority");
  return Status::Ok();
}

namespace {

// linux/sched/types.h, which does not go together with the C library's headers; as of its first version.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

}  // namespace

Status SetThreadSlice(Duration slice, Slice whose) {
  constexpr uint64_t kResetOnFork = 1;
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return Status::FromErrno(errno, "sched_getattr");
  if (attributes.policy != SCHED_OTHER) return Status::Ok();
  attributes.runtime_ns = static_cast<uint64_t>(slice.count());
  if (whose == Slice::kOfThread) attributes.flags |= kResetOnFork;
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) return Status::FromErrno(errno, "sched_setattr");
  return Status::Ok();
}

Status SetThreadIoClass(IoClass io_class) {
  // linux/ioprio.h: class in the upper three bits of sixteen, level below. who 1 is a process or thread.
  constexpr int kWhoProcess = 1;
  int value = 0;
  switch (io_class) {
    case IoClass::kNormal: value = 0; break;
    case IoClass::kBestEffortLow: value = (2 << 13) | 7; break;
    case IoClass::kIdle: value = 3 << 13; break;
  }
  if (syscall(SYS_ioprio_set, kWhoProcess, 0, value) != 0) return Status::FromErrno(errno, "ioprio_set");
  return Status::Ok();
}

Duration ThreadProcessorTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void SetThreadName(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

}  // namespace kedge::os
