// Settings of the calling thread: priority for processor and devices, name. Flush workers run low in both.
#pragma once

#include <string>

#include "base/status.h"

namespace kedge::os {

enum class IoClass { kNormal, kBestEffortLow, kIdle };

// Adds to the thread's niceness (0 to 19); lowering it again needs a privilege.
Status SetThreadNice(int nice);
// ioprio_set for this thread. Counts only with I/O schedulers that know it (bfq).
Status SetThreadIoClass(IoClass io_class);
// At most 15 characters are kept.
void SetThreadName(const std::string& name);

}  // namespace kedge::os
