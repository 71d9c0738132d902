// The machine on paper, and where each number comes from: one set for all studies, none tuned for a point.
//
// [P]  the poster and the paper print it.
// [C]  calibrated on one fact of the poster, which the comment names.
// [A]  assumed: of the order that such a machine has. docs/aggregation.md says what depends on it.
#pragma once

#include <cstdint>

namespace kedge::bench {

struct Machine {
  // The file system: Lustre of Theta.
  double peak_bytes_per_second = 172e9;  // [P]
  uint32_t targets = 56;                 // [A] storage targets; each serves peak / targets, first in, first out
  uint64_t stripe_bytes = 16 << 20;      // [A] of shared files, over all targets; also the size of a request
  double metadata_seconds = 200e-6;      // [A] one create or open at the one metadata server: 5,000 each second
  double hand_over_seconds = 80e-3;      // [C] the lock of a file's part on a target goes to another node: MPI-IO is above POSIX
  double service_noise = 0.1;            // [A] of each request at a target, uniform in 1 - noise to 1 + noise
  // A node: Knights Landing, whose cores are slow.
  double stream_bytes_per_second = 0.5e9;  // [A] one thread writes; a node's writes to one file are one stream (its inode's lock)
  double node_bytes_per_second = 1.5e9;    // [A] all streams of a node together
  double read_bytes_per_second = 1.0e9;    // [A] a flush reads what it writes from local storage, one thread
  double copy_bytes_per_second = 8.0e9;    // [C] a rank copies its checkpoint to /dev/shm: GenericIO is orders of magnitude below
  double memory_bytes_per_second = 80e9;   // [A] all ranks of a node together
  double network_bytes_per_second = 8e9;   // [A] into and out of a node
  double hop_seconds = 50e-6;              // [A] one message between two agents, software included
  // Collective writes: one aggregator for each target, rounds of one stripe each, nothing overlaps.
  double exchange_bytes_per_second = 1.3e9;  // [C] an aggregator gathers: GenericIO barely at a tenth of the peak, 1,024 ranks
  double sync_hop_seconds = 20e-6;           // [A] a round synchronizes: this x log2(processes) ...
  double sync_process_seconds = 1e-6;        // [A] ... and this x processes, for the sizes that each tells each
  double skew_seconds = 0.5;                 // [A] backends are ready for a collective call within so long
  double checksum_bytes_per_second = 1.0e9;  // [A] GenericIO's checksum, each rank before it writes

  double target_bytes_per_second() const { return peak_bytes_per_second / targets; }
  // What one stream of a flush gets into an idle target, read and service included.
  double object_bytes_per_second() const {
    return 1 / (1 / read_bytes_per_second + 1 / stream_bytes_per_second + 1 / target_bytes_per_second());
  }
};

}  // namespace kedge::bench
