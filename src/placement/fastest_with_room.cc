// "fastest-with-room": the fastest tier with a free or evictable slot; when none has one, wait for a flush that can free
// one; when there is none either, through to the store. Flushes go in order of arrival. ([VeloC] V calls it naive.)
#include "placement/fastest_with_room.h"

#include <algorithm>

namespace kedge {

PlaceDecision FastestWithRoom::Place(const NodeLoad& load, uint64_t chunk_bytes) {
  bool flush_can_free = false;
  for (size_t i = 0; i < load.tiers.size(); ++i) {
    const TierLoad& tier = load.tiers[i];
    if (tier.slot_bytes < chunk_bytes) continue;
    if (tier.HasRoom()) return {PlaceDecision::Kind::kTier, i};
    flush_can_free = flush_can_free || (tier.present && tier.flushing_chunks > 0);
  }
  return {flush_can_free ? PlaceDecision::Kind::kWait : PlaceDecision::Kind::kThrough, 0};
}

std::optional<size_t> FastestWithRoom::NextFlush(std::span<const FlushCandidate> candidates) {
  auto oldest = std::min_element(candidates.begin(), candidates.end(),
                                 [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return static_cast<size_t>(oldest - candidates.begin());
}

}  // namespace kedge
