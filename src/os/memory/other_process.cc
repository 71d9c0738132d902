#include "os/memory/other_process.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace kedge::os {

void AllowReadingBy(pid_t process) {
  (void)prctl(PR_SET_PTRACER, process);
}

pid_t ParentProcess() {
  return getppid();
}

pid_t ThisProcess() {
  return getpid();
}

Status ReadOtherMemory(pid_t process, uint64_t address, void* to, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const iovec local = {static_cast<char*>(to) + done, bytes - done};
    const iovec remote = {reinterpret_cast<void*>(address + done), bytes - done};
    const ssize_t got = process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (got > 0) {
      done += static_cast<size_t>(got);
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ESRCH) return Status(Code::kNotFound, fmt::format("no process {}", process));
    return Status::FromErrno(got < 0 ? errno : EFAULT, fmt::format("process_vm_readv of {} bytes of process {}", bytes, process));
  }
  return Status::Ok();
}

}  // namespace kedge::os
