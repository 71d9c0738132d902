// Threads of the library: started so that they take none of the application's signals, and settings of the calling one
// (priority for processor and devices, name). Flush workers run low in both.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/duration.h"
#include "base/status.h"

namespace kedge::os {

// A thread with every signal blocked, so that the application's handlers run on its own threads. kUnavailable when the
// system gives no thread.
Result<std::thread> StartThread(const std::string& name, std::function<void()> body);

enum class IoClass { kNormal, kBestEffortLow, kIdle };

// Adds to the thread's niceness (0 to 19); lowering it again needs a privilege.
Status SetThreadNice(int nice);
// How long the calling thread wants to run at a time, 0.1 to 100 ms (Linux 6.12; older kernels take no notice). With less than
// others have, it gets a processor from them at once when it wakes up, for no larger share. Ok, too, where its policy knows none.
enum class Slice {
  kOfThread,         // threads that it starts have what the system gives
  kOfItsThreadsToo,  // and the kernel's, which work for it
};
Status SetThreadSlice(Duration slice, Slice whose);
// ioprio_set for this thread. Counts only with I/O schedulers that know it (bfq).
Status SetThreadIoClass(IoClass io_class);
// What the calling thread has had of processors since it began.
Duration ThreadProcessorTime();
// At most 15 characters are kept.
void SetThreadName(const std::string& name);

}  // namespace kedge::os
