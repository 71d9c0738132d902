// What the machine, and this process's share of it, looks like: names, memory, cgroup limits, processors.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace kedge::os {

// /proc/sys/kernel/random/boot_id: changes with every boot; empty where there is none.
std::string BootId();
// /etc/machine-id: the same for ever, unless the machine was copied; empty where there is none.
std::string MachineId();
// Of this process: what a pid means something in. 0: not known.
uint64_t PidNamespace();
std::string HostName();
uid_t EffectiveUser();
// Linux release, "6.1.0-18-amd64".
std::string KernelRelease();

struct MemoryInfo {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // the kernel's estimate of what can be had without swapping
};
Result<MemoryInfo> MachineMemory();

struct CgroupMemory {
  uint64_t limit_bytes = 0;
  uint64_t used_bytes = 0;         // with page cache and shared memory
  uint64_t reclaimable_bytes = 0;  // of these, file cache that can be dropped
  // What can still be charged before the limit.
  uint64_t LeftBytes() const;
};
// The tightest memory limit on the way from this process's cgroup to the root, v1 or v2; nothing when there is none.
// `proc_folder` and `root` are for tests: where /proc/self and / are looked for.
std::optional<CgroupMemory> CgroupMemoryLimit(const std::string& proc_folder = "/proc/self", const std::string& root = "");

// Of the last ten seconds, the share in which somebody waited for the resource ("memory", "cpu"; PSI "some avg10"), percent: in
// this process's own cgroup where version 2 tells it, since a neighbour that is short of its own memory is no pressure here; else
// on the machine. 0 where it is not known.
double PressurePercent(const std::string& resource, const std::string& proc_folder = "/proc/self", const std::string& root = "");

// Processors that this process may use: its affinity, and no more than its cgroup's quota rounded up; at least 1.
int UsableCpuCount();

struct ProcessMemory {
  uint64_t resident_bytes = 0;
  uint64_t private_bytes = 0;  // resident and shared with nobody (smaps_rollup), so without the pool
};
Result<ProcessMemory> OwnMemory();

}  // namespace kedge::os
