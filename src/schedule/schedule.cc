#include "schedule/schedule.h"

#include <algorithm>
#include <utility>

namespace kedge {

namespace {

bool IsTurn(uint32_t every, uint32_t turn) {
  return every > 0 && turn % every == 0;
}

bool Gets(const LevelRule& rule, bool due, uint32_t attempt, int64_t wall_time_ns, LevelState* state) {
  if (!rule.allowed || !due) return false;
  if (rule.interval <= Duration::zero()) return true;
  const LevelState now{attempt, wall_time_ns / rule.interval.count()};
  const LevelState before = std::exchange(*state, now);
  return before.attempt != now.attempt || before.span != now.span;
}

}  // namespace

LevelCounts ConfiguredLevels(const JobKeys& keys) {
  return {keys.Protects() ? keys.schedule_node : 0, keys.schedule_store};
}

LevelCounts ChangedLevels(const LevelCounts& present, const LevelCounts& told) {
  const auto changed = [](uint32_t every, uint32_t wanted) { return every == 0 || wanted == 0 ? every : wanted; };
  return {changed(present.node_every, told.node_every), changed(present.store_every, told.store_every)};
}

ScheduledLevels LevelsByCount(const LevelCounts& counts, uint32_t turn) {
  return {IsTurn(counts.node_every, turn), IsTurn(counts.store_every, turn)};
}

uint32_t EncodeDueLevels(const ScheduledLevels& due) {
  return (due.node ? kDueNode : 0u) | (due.store ? kDueStore : 0u);
}

ScheduledLevels DecodeDueLevels(uint32_t due_levels) {
  return {(due_levels & kDueNode) != 0, (due_levels & kDueStore) != 0};
}

ScheduledLevels ScheduleVersion(const ScheduleRule& rule, const ScheduledLevels& due, uint32_t attempt, int64_t wall_time_ns,
                                ScheduleState* state) {
  return {Gets(rule.node, due.node, attempt, wall_time_ns, &state->node),
          Gets(rule.store, due.store, attempt, wall_time_ns, &state->store)};
}

Duration CheckpointInterval(const JobKeys& keys, Duration told) {
  if (told > Duration::zero()) return told;
  if (keys.schedule_adapt && keys.schedule_interval == Duration::zero()) return std::chrono::seconds(60);
  return keys.schedule_interval;
}

std::vector<Keeping> KeepLocal(std::span<const LocalGeneration> newest_first, uint32_t keep,
                               std::pair<uint32_t, uint32_t> stored) {
  std::vector<Keeping> keeping;
  keeping.reserve(newest_first.size());
  const uint32_t keep_whole = std::max(keep, 1u);
  const bool any_promised = std::any_of(newest_first.begin(), newest_first.end(),
                                        [](const LocalGeneration& generation) { return generation.promised; });
  const uint32_t keep_above_complete = any_promised ? 1 : 2;
  std::pair<uint32_t, uint32_t> latest_complete = stored;  // attempt and take
  for (const LocalGeneration& generation : newest_first) {
    if (!generation.abandoned && generation.whole && generation.IsComplete()) {
      latest_complete = std::max(latest_complete, std::pair(generation.attempt, generation.take));
    }
  }
  uint32_t whole_seen = 0, anew_seen = 0;
  std::pair<uint32_t, uint32_t> latest_whole;
  bool complete_seen = false, at_node_seen = false, in_store_seen = false;
  for (const LocalGeneration& generation : newest_first) {
    const std::pair taken(generation.attempt, generation.take);
    if (generation.abandoned) {
      const bool is_only_copy = generation.whole && generation.IsComplete() && !generation.in_store;
      const bool may_go = !is_only_copy || latest_complete > taken;
      keeping.push_back(generation.owed ? Keeping::kPinned : may_go ? Keeping::kDrop : Keeping::kEvictable);
      continue;
    }
    const bool is_anew = whole_seen > 0 && taken > latest_whole;
    if (!generation.whole) {
      const bool useless = generation.hopeless || generation.in_store || (whole_seen > 0 && !is_anew);
      keeping.push_back(useless && !generation.owed ? Keeping::kDrop : Keeping::kPinned);
      continue;
    }
    const uint32_t index = whole_seen++;
    latest_whole = std::max(latest_whole, taken);
    const bool newest_complete = generation.IsComplete() && !complete_seen;
    const bool may_be_where_others_stopped = !complete_seen && index < 2;
    const bool among_newest =
        index < keep_whole || (!complete_seen && index < keep_above_complete) || (is_anew && anew_seen++ < 2);
    complete_seen = complete_seen || generation.IsComplete();
    in_store_seen = in_store_seen || generation.in_store;
    // What a node's loss leaves: needed until something newer outlives that, too.
    const bool newest_at_node = generation.at_node && !at_node_seen && !in_store_seen;
    at_node_seen = at_node_seen || generation.at_node;
    if (generation.owed || generation.promised || newest_at_node) {
      keeping.push_back(Keeping::kPinned);
    } else if (newest_complete || among_newest) {
      // keep 0 still lets a version lie while nobody wants its room.
      keeping.push_back(generation.in_store ? Keeping::kEvictable : Keeping::kPinned);
    } else {
      keeping.push_back(may_be_where_others_stopped ? Keeping::kEvictable : Keeping::kDrop);
    }
  }
  return keeping;
}

}  // namespace kedge
