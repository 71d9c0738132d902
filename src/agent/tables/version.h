// The table of versions: one generation as this node sees it. See job.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/tables/held_set.h"
#include "agent/tables/image.h"
#include "format/set_records.h"
#include "os/events/event_loop.h"
#include "reduce/common_blocks.h"
#include "reduce/first_blocks.h"
#include "schedule/schedule.h"

namespace kedge {

struct Job;
struct Protection;

// Of a version: the agent of rank 0 has not said yet which levels it is to reach (turns.h).
struct Undecided {
  ScheduledLevels due;  // by count
  std::string node;     // whose agent is asked
  int64_t since_ns = 0;
  int64_t heard_ns = 0;  // when it answered last, or it was asked first
  Duration pause{};      // before it is asked again
};

using DecidedTurns = std::deque<std::pair<Generation, ScheduledLevels>>;

// Of written images that have blocks in other nodes' objects: whether these stand by now (flush/publisher.h).
struct CommonWait {
  int64_t since_ns = 0;  // 0: nothing was waited for yet
  Duration pause{};      // before the next look
  bool is_looking = false;
  std::set<std::string> stand;
};

// One generation on this node.
struct Version {
  Generation generation;
  Job* job = nullptr;
  uint32_t ranks = 1;
  uint32_t node_ranks = 1;
  bool to_node = false;                               // level NODE is among those
  std::optional<Undecided> undecided;                 // else scheduled() is what it is to reach
  std::map<uint32_t, std::unique_ptr<Image>> images;  // by rank
  bool drained = false;                               // in_store(), and seen there behind any burst buffer (flush/drain_watch.h)
  bool at_node = false;                               // protected: every group has its redundancy
  bool at_local = false;                              // all ranks were heard to hold it (local_level.h)
  bool skipped = false;                               // its flush was left out for a newer one
  bool restored = false;                              // an attempt has restarted from it, and goes on from there
  std::map<SetIdentity, std::unique_ptr<HeldSet>> sets;
  std::shared_ptr<Protection> protection;  // while it is on its way to level NODE (protect.h)
  Status node_failure;                     // why it does not get there, or is there no longer as safely
  // The blocks that its images may lend each other (reduce.deduplicate), from the first that is written until they are published.
  // Those that are written later stand alone: so whoever borrows is published together with all its lenders.
  std::shared_ptr<reduce::FirstBlocks> node_blocks;
  // The blocks that nodes write for each other, once they have agreed on them (reduce.deduplicate = job).
  std::shared_ptr<const reduce::CommonBlocks> common;
  CommonWait common_wait;
  // Whether this node writes its images; kAwaited: the nodes of the job are about to agree (gather/shipper.h).
  enum class Writers : uint8_t { kHere, kAwaited } writers = Writers::kHere;
  // Of another node's object, in which this one writes its images (store.layout = posix).
  std::shared_ptr<ObjectUnderWay> borrowed;
  bool has_published = false;  // images of it, from here
  bool probing = false;        // a look into the store is under way
  bool went_through = false;   // images that are gone had chunks in the store for want of room here
  Status failure;              // the first of its images
  Status absence;              // while its flush waits for the store: why that is not there
  RetryPauses absences;        // of its publication
  PlacementCounts placement;   // of its images that ended with this agent
  std::vector<uint32_t> missing_in_store;
  os::EventLoop::TimerId grace_timer = 0;

  // An image of each rank of the node is held.
  bool IsWhole() const;
  // Something of it lies in a lost tier.
  bool HasLost() const;
  // The same of all nodes, as far as this one knows.
  bool IsAtLocal() const { return (at_local || node_ranks >= ranks) && IsWhole(); }
  // The highest level that it has.
  Level ReachedLevel() const;
  // The same without what the store has: what the nodes alone vouch for.
  Level LevelByNodes() const;
  // The image of that rank, where it has ended and lies whole on this node; else null.
  const Image* FindWhole(uint32_t rank) const;
  // Whether all ranks can go on from it, or could before something was lost.
  bool IsComplete() const { return at_local || at_node || in_store_; }
  // This node has told the others that it holds it (local_level.h), and has told nothing later.
  bool IsPromised() const;
  // Its burst buffer has yet to bring it to the store, as far as was seen.
  bool IsOnBufferOnly() const;
  // The job has gone on without it (store/lineage.h).
  bool IsAbandoned() const;
  // It was at level NODE, and would not survive the loss of a node any more.
  void Weaken(const std::string& why);
  // Whether it waits for level NODE.
  bool IsOwedToNodes() const;
  // Its flush is left out.
  void Skip();
  // The last level that it is to reach, or may be while that is undecided.
  Level LastLevel() const { return undecided.has_value() ? Level::kStore : scheduled_; }

  // The last level that it is to reach.
  Level scheduled() const { return scheduled_; }
  // It was decided anew (turns.h), or a predecessor had done so.
  void Schedule(Level last) { scheduled_ = last; }
  // It is to reach this one, too, which was not planned: a restart, a tool, or a store that has lost it.
  void AlsoTo(Level level) { scheduled_ = std::max(scheduled_, level); }
  // Complete in the store, or on the burst buffer before it.
  bool in_store() const { return in_store_; }
  void SetStored() { in_store_ = true; }
  // It is there no more, as was just seen.
  void SetGoneFromStore() { in_store_ = drained = false; }

 private:
  Level scheduled_ = Level::kNone;
  bool in_store_ = false;
};

}  // namespace kedge
