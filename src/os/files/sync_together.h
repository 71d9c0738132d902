// Fsync of many files at a time, through io_uring, or by threads where the kernel has none or forbids it. With the ring the
// caller sleeps once, however many files there are: where others keep all processors busy, each time costs milliseconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "os/files/file_system.h"

namespace kedge::os {

enum class SyncEngine : uint8_t { kAuto, kRing, kThreads };

// One status each, in order. Every file has a descriptor. kRing: kUnsupported for all where there is none.
std::vector<Status> SyncTogether(std::span<File* const> files, SyncEngine engine = SyncEngine::kAuto);

}  // namespace kedge::os
