// Which version gets which level, and what stays on the node: pure decisions over what the agent knows.
//
// Everything here is a function of its arguments. The agent keeps the state (with its job, so that a successor goes on
// counting) and carries the decisions out.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/duration.h"
#include "format/identity.h"
#include "session/level_counts.h"
#include "session/messages.h"

namespace kedge {

// The levels above local that a version is to reach.
struct ScheduledLevels {
  bool node = false;
  bool store = false;
  Level Last() const { return store ? Level::kStore : node ? Level::kNode : Level::kLocal; }
  friend bool operator==(const ScheduledLevels&, const ScheduledLevels&) = default;
};

// The counts that a job begins with.
LevelCounts ConfiguredLevels(const JobKeys& keys);
// What it goes by after it was told others: a level that is off stays off, and one of which nothing is said stays as it is.
LevelCounts ChangedLevels(const LevelCounts& present, const LevelCounts& told);

// The levels that are the turn of the version that is the `turn`-th (from 0) of its name in its attempt, by count alone. The
// first one of an attempt gets every level (unless its count is 0), so that a job is not without a safe one for longer than it
// need be.
//
// All nodes must decide alike, or no version is ever whole in the store; so nothing is counted here that a node which joined
// late, or was without an agent for a while, would count differently: turn and counts come from the ranks, which take the same
// versions in the same order, and change their counts between the same two of them.
ScheduledLevels LevelsByCount(const LevelCounts& counts, uint32_t turn);

// As DueLevels of a rank's message, whose other bits mean nothing.
uint32_t EncodeDueLevels(const ScheduledLevels& due);
ScheduledLevels DecodeDueLevels(uint32_t due_levels);

// What the agent makes of one level's turn.
struct LevelRule {
  bool allowed = true;  // false: no version gets the level, whatever its turn
  Duration interval{};  // no more than one version in each span of this length gets it; zero: no limit
};

// Of one level and one name of a job: when the last version that was to get the level by count was taken.
struct LevelState {
  uint32_t attempt = 0;
  int64_t span = 0;  // of LevelRule::interval, since 1970
};

struct ScheduleRule {
  LevelRule node;
  LevelRule store;
};
struct ScheduleState {
  LevelState node;
  LevelState store;
};

// Of the levels whose turn it is, those that the version gets, and the state after it. The spans are those of the clock on the
// wall; one node's decides for all, or versions that are taken on both sides of a span's edge would not get the level everywhere
// (agent/schedule/turns.h).
ScheduledLevels ScheduleVersion(const ScheduleRule& rule, const ScheduledLevels& due, uint32_t attempt, int64_t wall_time_ns,
                                ScheduleState* state);

// The time between two checkpoints that kedge_checkpoint_due goes by; zero: always due. `told` is the agent's own (zero: it has
// none). With schedule.adapt and neither, a minute, until a checkpoint was measured.
Duration CheckpointInterval(const JobKeys& keys, Duration told);

// One generation on the node, as retention sees it.
struct LocalGeneration {
  uint32_t attempt = 0;    // in which it was taken, and as
  uint32_t take = 0;       // which of its checkpoints
  bool whole = false;      // an image of every rank of this node is there
  bool hopeless = false;   // not whole, and never will be: its attempt is over
  bool owed = false;       // its flush or protection is due, under way, or will be tried again
  bool in_store = false;   // complete in the store
  bool at_node = false;    // protected across nodes: complete at level NODE
  bool at_local = false;   // known to be whole on all nodes of the job: complete at level LOCAL
  bool promised = false;   // to the other nodes, which may count on it from now on (agent/schedule/local_level.h)
  bool abandoned = false;  // the job has gone on from an older one in a later attempt

  // Whether all ranks can go on from it, as far as this node knows.
  bool IsComplete() const { return at_local || at_node || in_store; }
};

enum class Keeping : uint8_t {
  kPinned,     // must stay
  kEvictable,  // may go when room is wanted
  kDrop,       // goes now
};

// What happens to each generation of one name, given newest first; the answer has the same order.
// - What is owed a level, or promised, stays.
// - What is not whole stays while it may become so: not when it is hopeless, in the store without us, or older than a whole
//   one.
// - Of whole generations the newest `keep` (at least one) stay while there is room: evictable when in the store, pinned when
//   the node's copy is the only one.
// - The newest complete generation stays, however many are newer: a job that dies before all nodes have one of those goes on
//   from it. So do the two newest whole ones above it: the other nodes may have stopped at the one or the other, which nobody
//   has told. Beside one that is promised the second of them stays while there is room.
// - Who begins anew with lower versions than there were has none of them complete at first: the newest two that were taken after
//   all greater ones stay, and parts of them.
// - The newest generation at level NODE stays too, however many are newer: they do not survive a node. Unless it or
//   something newer is in the store.
// - Older ones go. So does what is abandoned, when the store has it or something that was taken after it is complete, here or in
//   the store (`stored`: attempt and take of the newest): until then a restart by attempt may still want it, and it lies there
//   while nobody wants its room.
std::vector<Keeping> KeepLocal(std::span<const LocalGeneration> newest_first, uint32_t keep,
                               std::pair<uint32_t, uint32_t> stored = {});

}  // namespace kedge
