// Requests in flight: submit many, take completions one by one. Internal to direct_io and sync_together.
//
// Two implementations: io_uring, and plain calls (a request is complete when Submit returns). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "os/files/file_system.h"

namespace kedge::os {

enum class IoKind : uint8_t { kRead, kWrite, kSync };

struct IoRequest {
  File* file = nullptr;
  IoKind kind = IoKind::kRead;
  std::byte* data = nullptr;  // only read from by kWrite; kSync (fsync) has none
  size_t bytes = 0;
  uint64_t offset = 0;
  int buffer_index = -1;  // the registered buffer that `data` lies in, or -1
  uint64_t token = 0;     // comes back with the completion
};

struct IoCompletion {
  uint64_t token = 0;
  Result<size_t> outcome = size_t{0};  // bytes transferred, perhaps fewer than asked for; 0: end of file
};

class IoQueue {
 public:
  virtual ~IoQueue() = default;
  // At most the queue's depth may be in flight. An error means that the queue is broken; what the request met comes
  // with its completion.
  virtual Status Submit(const IoRequest& request) = 0;
  // Waits for one of the requests in flight; there must be one. An error means that the queue is broken.
  virtual Result<IoCompletion> Wait() = 0;
};

std::unique_ptr<IoQueue> MakePlainQueue();

// kUnsupported with the reason when the kernel has none or forbids it.
Result<std::unique_ptr<IoQueue>> MakeRingQueue(unsigned depth);
// For requests with a buffer_index. At most once for a queue.
Status RegisterBuffers(IoQueue& ring, std::byte* buffers, size_t buffer_bytes, unsigned count);

}  // namespace kedge::os
