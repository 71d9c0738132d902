#include "os/thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace kedge::os {

Status SetThreadNice(int nice) {
  // On Linux the priority of PRIO_PROCESS belongs to the thread; 0 is the calling one.
  if (setpriority(PRIO_PROCESS, 0, nice) != 0) return Status::FromErrno(errno, "setpriority");
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

void SetThreadName(const std::string& name) { pthread_setname_np(pthread_self(), name.substr(0, 15).c_str()); }

}  // namespace kedge::os
