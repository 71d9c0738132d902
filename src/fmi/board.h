// What the processes of a job on one node share: one piece of memory without a name, which goes with the last of them.
//
// It has the job's epoch, a row for each rank (how far it is, where it is reached, whether it sleeps), and a ring of messages for
// each ordered pair of ranks. fmirun makes it, and hands its descriptor down. Nothing in it is locked: each word has one writer,
// or is changed by one atomic operation, so that whoever is killed leaves nothing half done.
//
// The word of the epoch decides between a failure and the end of the job: fmirun begins the next epoch, or a rank finishes the
// present one, whichever comes first.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/status.h"
#include "fmi/phases.h"
#include "fmi/ring.h"
#include "os/memory/mapping.h"

namespace kedge::fmi {

constexpr uint32_t kRanksMax = 256;

struct BoardHeader {
  uint64_t magic;
  uint32_t ranks;
  std::atomic<uint32_t> epoch;     // the highest bit: finished
  std::atomic<uint32_t> relaunch;  // 1: a rank cannot go on unless all begin anew
  // What all ranks have, so that a single one can be started again: it has the checkpoint, and the others wait in FMI_Loop.
  std::atomic<uint32_t> has_checkpoint;
  std::atomic<uint64_t> progress;  // checkpoints taken by all
};

struct alignas(64) BoardRow {
  std::atomic<uint64_t> place;
  std::atomic<uint64_t> loops;          // calls of FMI_Loop
  std::atomic<uint64_t> probe_address;  // where the process has the rank's number, for others to try whether they can read it
  std::atomic<int32_t> process_id;
  std::atomic<uint32_t> joins;  // 1: started again, while the others went on
  alignas(64) std::atomic<uint32_t> bell;
  std::atomic<uint32_t> sleeps;
};

class Board {
 public:
  static Result<Board> Create(uint32_t ranks);
  // kMismatch: it is another version's.
  static Result<Board> Attach(int descriptor);

  uint32_t ranks() const { return header().ranks; }
  int descriptor() const { return memory_.descriptor(); }
  BoardHeader& header() const { return *reinterpret_cast<BoardHeader*>(memory_.data()); }
  BoardRow& row(uint32_t rank) const;
  RingMemory* ring(uint32_t from, uint32_t to) const;

  // Of a job that has finished: its last.
  uint32_t epoch() const { return header().epoch.load(std::memory_order_acquire) & ~kFinished; }
  bool has_finished() const { return (header().epoch.load(std::memory_order_acquire) & kFinished) != 0; }
  // False, and nothing is changed, when the job has finished. Wakes everybody.
  bool BeginEpoch();
  // False when `epoch` is over. Wakes everybody.
  bool Finish(uint32_t epoch);

  Place place(uint32_t rank) const { return Unpack(row(rank).place.load(std::memory_order_acquire)); }
  std::vector<Place> places() const;
  // Wakes everybody.
  void SetPlace(uint32_t rank, Place place);

  // Wakes the rank if it sleeps. What it is to see must be written before.
  void Ring(uint32_t rank);
  // Until `ready()` holds: looks for a while, lets others run for a while, then sleeps, to look again whenever somebody rings.
  template <typename Ready>
  void Await(uint32_t rank, Ready ready) const {
    for (uint32_t look = 0; look < patience_.looks; ++look) {
      if (ready()) return;
      Pause();
    }
    for (uint32_t look = 0; look < patience_.yields; ++look) {
      if (ready()) return;
      std::this_thread::yield();
    }
    while (!SleepUnless(rank, ready)) {
    }
  }

 private:
  static constexpr uint32_t kFinished = uint32_t{1} << 31;
  Board(os::SharedMapping memory, uint32_t ranks);
  void RingAll();
  static void Pause();
  void Sleep(uint32_t rank, uint32_t bell) const;

  template <typename Ready>
  bool SleepUnless(uint32_t rank, Ready& ready) const {
    BoardRow& own = row(rank);
    const uint32_t bell = own.bell.load(std::memory_order_acquire);
    own.sleeps.store(1, std::memory_order_relaxed);
    // Either it is ready, or whoever makes it so sees that this one sleeps (Ring).
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const bool is_ready = ready();
    if (!is_ready) Sleep(rank, bell);
    own.sleeps.store(0, std::memory_order_relaxed);
    return is_ready;
  }

  os::SharedMapping memory_;
  // How often it is looked whether a wait has ended.
  struct Patience {
    uint32_t looks;
    uint32_t yields;
  };
  static const Patience kPatient;
  static const Patience kCrowded;  // there are more ranks than processors
  Patience patience_;
};

}  // namespace kedge::fmi
