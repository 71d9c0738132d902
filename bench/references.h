// What the machine itself can do with the same bytes, measured beside Kedge in the same run: the yardsticks of
// docs/performance.md. Every function measures one rank's part and returns seconds; the caller starts all ranks together
// and takes the slowest. Files that are written are made fresh and removed again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kedge::bench {

// A shared mapping of a file under /dev/shm, faulted in: what the pool is made of. Aborts when it cannot be made.
class FaultedBuffer {
 public:
  explicit FaultedBuffer(size_t bytes);
  ~FaultedBuffer();
  FaultedBuffer(const FaultedBuffer&) = delete;
  FaultedBuffer& operator=(const FaultedBuffer&) = delete;
  char* data() { return data_; }

 private:
  char* data_;
  size_t bytes_;
};

double MemcpySeconds(char* faulted, const char* data, size_t bytes);
// write() into a fresh file under /dev/shm.
double SharedMemoryWriteSeconds(const char* data, size_t bytes, int rank);
// write() of 8 MiB at a time into a fresh file in `folder`, then fsync, close.
double WriteFsyncSeconds(const std::string& folder, const char* data, size_t bytes, int rank);
// The same through O_DIRECT from an aligned buffer; negative where the file system refuses O_DIRECT.
double DirectWriteSeconds(const std::string& folder, const char* data, size_t bytes, int rank);
// Opens a file and reads its first `bytes` from front to back, 8 MiB at a time, into `destination`.
double ReadSeconds(const std::string& path, char* destination, size_t bytes);
// The files below `folder` of at least `bytes` that were written last: `count` of them, or fewer where there are not as many.
std::vector<std::string> NewestFiles(const std::string& folder, size_t bytes, size_t count);

// A sort of 24 numbers, a line formatted and parsed, a date, an allocation: about a thousand instructions that have nothing to
// do with Kedge. What they take longer after a pause than back to back is what the pause costs any code on this machine.
double LibraryCallsSeconds();

// Writes back and drops every regular file below `folder` from the page cache.
void DropFromPageCache(const std::string& folder);

}  // namespace kedge::bench
