// What the parts of a context share: who this rank is, where its data goes, and the lock around all of it.
//
// A context is a Core and the parts that work on it, one concern each: ledger (versions and takes), checkpointer, pace (whether
// one or the exit is due), restarter, levels (wait, test, ...), session (the agent), watcher (the background thread). Calls of
// the application hold `mutex`; the watcher takes it for moments only.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "capture/chunking.h"
#include "client/heap/heap.h"
#include "client/ranks/collective.h"
#include "client/regions/region_table.h"
#include "kedge/kedge.h"
#include "os/files/file_system.h"
#include "os/process/fork_guard.h"
#include "session/config_keys.h"
#include "session/level_counts.h"
#include "store/catalog.h"

namespace kedge::client {

struct Core {
  explicit Core(os::ForkGuard guard) : fork_guard(std::move(guard)) {}

  const os::ForkGuard fork_guard;
  mutable std::mutex mutex;
  // The thread that runs a call-back of the application under the lock: its calls on this context are refused, not hung.
  std::atomic<std::thread::id> callback_thread{};

  NodeSettings node;
  JobSettings job;
  // Node keys that the job sets itself: for the handshake, and for an agent that is started.
  std::vector<std::pair<std::string, std::string>> node_keys;
  Collective collective;
  uint32_t ranks_on_node = 1;

  os::FileSystem* file_system = nullptr;
  std::unique_ptr<Store> store;
  std::optional<Catalog> catalog;  // set once init has succeeded
  uint32_t attempt = 0;
  // The attempt began without the store, which has no record of it so far as is known here; rank 0 puts it there.
  std::atomic<bool> attempt_unrecorded{false};
  AttemptRecord attempt_record;  // of an attempt that began so
  // What the job's attempts went on from, as far as the nodes knew at init, and this attempt's own; the same on all ranks.
  std::vector<RestoredRecord> restored;
  // Rank 0's word for all: whether the nodes protect each other, and the secret of this attempt's agents.
  bool protects = false;
  bool brings_images = false;  // what a node lacks is asked of the others, or of staging agents
  bool joins_nodes = false;    // the agents of its nodes are told of each other
  std::string secret;
  // The job was taken over by a newer attempt: nothing may be published any more.
  std::atomic<bool> superseded{false};

  // What the versions go by: the same on all ranks between the same calls (pace.h).
  LevelCounts levels;

  RegionTable regions;
  Heap heap{&regions.default_group()};
  kedge_statistics statistics{};

  // An image has begun, and its memory is copied while the application goes on (capture.mode = cow).
  bool capturing = false;
  std::condition_variable capture_ended;
  // Until there is none; `lock` holds the mutex on entry and return. kTimeout.
  Status AwaitCapture(std::unique_lock<std::mutex>& lock, const Deadline& deadline) {
    const auto is_over = [this] { return !capturing; };
    if (capture_ended.wait_for(lock, std::max(deadline.Remaining(), Duration{}), is_over)) return Status::Ok();
    return Status(Code::kTimeout, "rank " + std::to_string(rank()) + ": the last checkpoint is still being captured");
  }

  // kBusy: what this context has taken is not safe any more, and it takes nothing more.
  Status CheckNotSuperseded() const {
    if (!superseded.load()) return Status::Ok();
    return Status(Code::kBusy, "rank " + std::to_string(rank()) + ": a newer attempt has taken job '" + job.job +
                                   "' over; this one may not go on");
  }

  // A call's outcome, after which kBusy means that: the catalog says so of whoever works for an older attempt.
  Status Heard(Status status) {
    if (status.code() == Code::kBusy) superseded.store(true);
    return status;
  }

  uint32_t rank() const { return collective.rank(); }
  uint32_t ranks() const { return collective.ranks(); }
  // Sizes that hold where no agent says otherwise.
  LayoutLimits InlineLimits() const { return {node.chunk_bytes.value_or(kChunkBytesDefault), node.piece_bytes}; }
};

}  // namespace kedge::client
