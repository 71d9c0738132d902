#include "schedule/schedule.h"

#include <algorithm>

namespace kedge {

Level ScheduleVersion(const LevelRule& rule, int64_t wall_time_ns, LevelState* state) {
  const bool first = state->versions++ == 0;
  if (rule.store_every == 0) return Level::kLocal;
  ++state->versions_since_store;
  const bool by_count = first || state->versions_since_store >= rule.store_every;
  // A clock that was set back must not keep versions from the store.
  const int64_t since_ns = wall_time_ns - state->last_store_wall_ns;
  const bool by_time = state->last_store_wall_ns == 0 || since_ns < 0 || since_ns >= rule.store_interval.count();
  if (!by_count || !by_time) return Level::kLocal;
  state->versions_since_store = 0;
  state->last_store_wall_ns = wall_time_ns;
  return Level::kStore;
}

std::vector<Keeping> KeepLocal(std::span<const LocalGeneration> newest_first, uint32_t keep) {
  std::vector<Keeping> keeping;
  keeping.reserve(newest_first.size());
  const uint32_t keep_whole = std::max(keep, 1u);
  uint32_t whole_seen = 0;
  for (const LocalGeneration& generation : newest_first) {
    if (!generation.whole) {
      const bool useless = generation.hopeless || generation.in_store || whole_seen > 0;
      keeping.push_back(useless && !generation.owed ? Keeping::kDrop : Keeping::kPinned);
      continue;
    }
    const bool among_newest = whole_seen++ < keep_whole;
    if (generation.owed) {
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
