// What the fabric itself gives: one-sided reads between the processes of the benchmark, straight over libfabric, with nothing
// of Kedge in between. The yardstick for the time that protection across nodes spends on the network.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <string>

namespace kedge::bench {

// One reliable-datagram endpoint of this process, its `bytes` of memory registered for the others to read, and a thread that
// drives progress while others read (no software provider serves a read without). All processes make one together.
class FabricReads {
 public:
  // Collective. Null, on all processes, when a process cannot open `provider`; *why then says what failed there.
  static std::unique_ptr<FabricReads> Open(MPI_Comm communicator, const std::string& provider, const char* memory, size_t bytes,
                                           std::string* why);
  ~FabricReads();

  // Collective: this process reads `bytes` of the memory of process `from`, in pieces of `piece_bytes` with `window` of them
  // under way, while all others do as much. Its own seconds; aborts when a read fails.
  double ReadSeconds(int from, size_t bytes, size_t piece_bytes, size_t window);

 private:
  class Impl;
  explicit FabricReads(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kedge::bench
