#include "schedule/schedule.h"

#include <algorithm>
#include <utility>

namespace kedge {

namespace {

bool IsDue(const LevelRule& rule, uint32_t attempt, uint32_t turn, int64_t wall_time_ns, LevelState* state) {
  if (rule.every == 0 || turn % rule.every != 0) return false;
  if (rule.interval <= Duration::zero()) return true;
  const LevelState now{attempt, wall_time_ns / rule.interval.count()};
  const LevelState before = std::exchange(*state, now);
  return before.attempt != now.attempt || before.span != now.span;
}

}  // namespace

ScheduledLevels ScheduleVersion(const ScheduleRule& rule, uint32_t attempt, uint32_t turn, int64_t wall_time_ns,
                                ScheduleState* state) {
  return {IsDue(rule.node, attempt, turn, wall_time_ns, &state->node),
          IsDue(rule.store, attempt, turn, wall_time_ns, &state->store)};
}

Duration CheckpointInterval(const JobKeys& keys, Duration told) {
  if (told > Duration::zero()) return told;
  if (keys.schedule_adapt && keys.schedule_interval == Duration::zero()) return std::chrono::seconds(60);
  return keys.schedule_interval;
}

std::vector<Keeping> KeepLocal(std::span<const LocalGeneration> newest_first, uint32_t keep) {
  std::vector<Keeping> keeping;
  keeping.reserve(newest_first.size());
  const uint32_t keep_whole = std::max(keep, 1u);
  uint32_t whole_seen = 0;
  bool at_node_seen = false, in_store_seen = false;
  for (const LocalGeneration& generation : newest_first) {
    if (!generation.whole) {
      const bool useless = generation.hopeless || generation.in_store || whole_seen > 0;
      keeping.push_back(useless && !generation.owed ? Keeping::kDrop : Keeping::kPinned);
      continue;
    }
    const bool among_newest = whole_seen++ < keep_whole;
    in_store_seen = in_store_seen || generation.in_store;
    // What a node's loss leaves: needed until something newer outlives that, too.
    const bool newest_at_node = generation.at_node && !at_node_seen && !in_store_seen;
    at_node_seen = at_node_seen || generation.at_node;
    if (generation.owed || newest_at_node) {
      keeping.push_back(Keeping::kPinned);
    } else if (among_newest) {
      // keep 0 still lets a version lie while nobody wants its room.
      keeping.push_back(generation.in_store ? Keeping::kEvictable : Keeping::kPinned);
    } else {
      keeping.push_back(Keeping::kDrop);
    }
  }
  return keeping;
}

}  // namespace kedge
