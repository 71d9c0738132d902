#include "schedule/schedule.h"

#include <algorithm>
#include <utility>

namespace kedge {

Level ScheduleVersion(const LevelRule& rule, uint32_t attempt, uint32_t turn, int64_t wall_time_ns, LevelState* state) {
  if (rule.store_every == 0 || turn % rule.store_every != 0) return Level::kLocal;
  if (rule.store_interval <= Duration::zero()) return Level::kStore;
  const LevelState now{attempt, wall_time_ns / rule.store_interval.count()};
  const LevelState before = std::exchange(*state, now);
  return before.attempt != now.attempt || before.span != now.span ? Level::kStore : Level::kLocal;
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
