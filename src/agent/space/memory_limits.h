// How much memory the pools may still take of what the machine has: the node belongs to the application.
//
// Memory files are charged like any other memory: to the machine, to the cgroup of whoever touches a page first, and to their
// file system, which others use as well (MPI libraries above all). Of each, a part is left to the application.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "os/files/file_system.h"
#include "os/machine/machine.h"

namespace kedge {

struct MemoryLimits {
  os::MemoryInfo machine;
  std::optional<os::CgroupMemory> cgroup;  // the tightest; nothing: there is none
  double pressure_percent = 0;             // os::PressurePercent
};

struct MemoryRoom {
  int64_t bytes = 0;       // that may be taken; below 0: to be given back
  const char* bound = "";  // what allows no more, for people
};

// What is left after the application's part. Nothing, and somewhat less than that, while there is pressure.
MemoryRoom RoomOf(const MemoryLimits& limits);
// The same of a memory file system.
MemoryRoom RoomOf(const os::VolumeInfo& volume);

// As they are now. What cannot be found out counts as no limit.
MemoryLimits LookAtMemory();

}  // namespace kedge
