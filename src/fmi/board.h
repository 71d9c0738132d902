// What the processes of a job on one node share: one piece of memory without a name, which goes with the last of them.
//
// It has the job's epoch, a row for each rank (how far it is, where it is reached, whether it sleeps), and a ring of messages for
// each ordered pair of ranks. The task of the node makes it, and hands its descriptor down; it tells fmirun what its ranks write
// into their rows, and writes the rows of other nodes' ranks, and the epoch, as fmirun says. Nothing in it is locked: each word
// has one writer, or is changed by one atomic operation, so that whoever is killed leaves nothing half done.
//
// fmirun alone decides between a failure and the end of the job.
#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "fmi/phases.h"
#include "fmi/ring.h"
#include "fmi/sealed_stream.h"
#include "net/authentication.h"
#include "os/events/event_fd.h"
#include "os/memory/mapping.h"

namespace kedge::fmi {

constexpr uint32_t kRanksMax = 1024;

struct BoardHeader {
  uint64_t magic;
  uint32_t ranks;
  net::Digest secret;  // of the job: what ranks prove to each other
  Secrecy secrecy;     // of messages between nodes
  uint32_t address;    // of this node, for ranks of others; 0: there are none
  int32_t task_bell;
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
  std::atomic<uint64_t> endpoint;       // where it listens for ranks of other nodes: address and port
  std::atomic<int32_t> process_id;
  std::atomic<uint32_t> is_here;  // 1: on this node
  std::atomic<uint32_t> joins;    // 1: started again, while the others went on
  std::atomic<uint32_t> lost;     // the epoch in which it has lost a connection
  int32_t bell;                   // an eventfd, inherited under this number
  alignas(64) std::atomic<uint32_t> sleeps;
  // A bit for each rank that has ever sent it a message through a ring: the others' rings are not looked at, and take no memory.
  alignas(64) std::atomic<uint64_t> senders[kRanksMax / 64];
};

class Board {
 public:
  static Result<Board> Create(uint32_t ranks);
  // kMismatch: it is another version's.
  static Result<Board> Attach(int descriptor);

  uint32_t ranks() const { return header().ranks; }
  int descriptor() const { return memory_.descriptor(); }
  // Those that a rank inherits.
  std::vector<int> descriptors() const;
  BoardHeader& header() const { return *reinterpret_cast<BoardHeader*>(memory_.data()); }
  BoardRow& row(uint32_t rank) const;
  RingMemory* ring(uint32_t from, uint32_t to) const;
  // Before the first message goes into that ring.
  void NoteSender(uint32_t from, uint32_t to) const { row(to).senders[from / 64].fetch_or(uint64_t{1} << from % 64); }
  template <typename Look>
  void ForEachSender(uint32_t to, Look look) const {
    const BoardRow& its = row(to);
    for (uint32_t word = 0; word * 64 < ranks(); ++word) {
      for (uint64_t bits = its.senders[word].load(std::memory_order_acquire); bits != 0; bits &= bits - 1) {
        look(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
      }
    }
  }

  // Of a job that has finished: its last.
  uint32_t epoch() const { return header().epoch.load(std::memory_order_acquire) & ~kFinished; }
  bool has_finished() const { return (header().epoch.load(std::memory_order_acquire) & kFinished) != 0; }
  // As fmirun has said. Wakes everybody.
  void SetEpoch(uint32_t epoch, bool has_finished);

  Place place(uint32_t rank) const { return Unpack(row(rank).place.load(std::memory_order_acquire)); }
  std::vector<Place> places() const;
  // Wakes everybody, the task too.
  void SetPlace(uint32_t rank, Place place);
  bool is_here(uint32_t rank) const { return row(rank).is_here.load(std::memory_order_acquire) != 0; }

  // Wakes the rank if it sleeps. What it is to see must be written before.
  void Ring(uint32_t rank);
  // What the task is to tell fmirun was written.
  void RingTask() const { task_bell_.Signal(); }
  const os::EventFd& task_bell() const { return task_bell_; }
  const os::EventFd& bell(uint32_t rank) const { return bells_[rank]; }
  // Until `ready()` holds: looks for a while, lets others run for a while, then sleeps by `sleep()`, which returns when somebody
  // has rung at the latest, and looks again.
  template <typename Ready, typename Sleep>
  void Await(uint32_t rank, Ready ready, Sleep sleep) const {
    for (uint32_t look = 0; look < patience_.looks; ++look) {
      if (ready()) return;
      Pause();
    }
    for (uint32_t look = 0; look < patience_.yields; ++look) {
      if (ready()) return;
      std::this_thread::yield();
    }
    while (!SleepUnless(rank, ready, sleep)) {
    }
  }
  template <typename Ready>
  void Await(uint32_t rank, Ready ready) const {
    Await(rank, ready, [&] { SleepForBell(rank); });
  }
  static constexpr Duration kSleepMax = std::chrono::seconds(1);

 private:
  static constexpr uint32_t kFinished = uint32_t{1} << 31;
  Board(os::SharedMapping memory, std::vector<os::EventFd> bells, os::EventFd task_bell);
  void RingAll();
  static void Pause();
  void SleepForBell(uint32_t rank) const;

  template <typename Ready, typename Sleep>
  bool SleepUnless(uint32_t rank, Ready& ready, Sleep& sleep) const {
    BoardRow& own = row(rank);
    own.sleeps.store(1, std::memory_order_relaxed);
    // Either it is ready, or whoever makes it so sees that this one sleeps (Ring).
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const bool is_ready = ready();
    if (!is_ready) {
      sleep();
      bell(rank).Drain();
    }
    own.sleeps.store(0, std::memory_order_relaxed);
    return is_ready;
  }

  os::SharedMapping memory_;
  std::vector<os::EventFd> bells_;
  os::EventFd task_bell_;
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
