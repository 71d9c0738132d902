// Reading another process's memory (process_vm_readv): one copy, by the reader, without the other's doing.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace kedge::os {

// Lets `process` and its descendants read this process's memory where the system allows only parents to (Yama); otherwise
// nothing.
void AllowReadingBy(pid_t process);
pid_t ParentProcess();
pid_t ThisProcess();

// Copies `bytes` bytes at `address` there to `to`. kNotFound: the process has ended, or is about to. kPermission: the system does
// not allow it.
Status ReadOtherMemory(pid_t process, uint64_t address, void* to, size_t bytes);

}  // namespace kedge::os
