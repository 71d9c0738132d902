// What this kernel offers beyond the plain interface, found out by trying; for `kedge doctor` and for choosing paths.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "os/files/file_system.h"

namespace kedge::os {

// The chosen word of /sys/kernel/mm/transparent_hugepage/{enabled,shmem_enabled}: "always", "madvise", "never"; "" unknown.
std::string TransparentHugePages();
std::string SharedMemoryHugePages();
uint64_t HugetlbPagesTotal();
// RLIMIT_MEMLOCK in bytes; UINT64_MAX: none.
uint64_t LockedMemoryLimitBytes();

// Writes `bytes` to a file in `folder` and syncs it, `rounds` times: the median seconds. The file is gone afterwards.
Result<double> MeasureSyncSeconds(FileSystem& fs, const std::string& folder, size_t bytes, int rounds);

}  // namespace kedge::os
