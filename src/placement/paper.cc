// "paper": [VeloC] algorithm 2 to the letter, for any number of tiers. The tier with room whose predicted throughput for one
// more writer is greatest, if that is more than what one flush achieves; otherwise wait for any flush and try again.
//
// Lines 6 to 13 are the loop below. The paper assumes that one tier is faster than the store, so that no wait is for ever;
// here a wait needs a flush that is queued or under way, and without one the chunk goes to the fastest tier with room, or
// through to the store. A tier without a curve counts as faster than everything after it.
#include "placement/paper.h"

#include <limits>

namespace kedge {

PlaceDecision Paper::Place(const NodeLoad& load, uint64_t chunk_bytes) {
  std::optional<size_t> best;     // Dest
  std::optional<size_t> fastest;  // what it would be if flushes were no alternative
  double best_rate = static_cast<double>(load.flush_bytes_per_second);
  double fastest_rate = -1;
  bool flush_under_way = load.flushes_in_flight > 0;
  for (size_t i = 0; i < load.tiers.size(); ++i) {
    const TierLoad& tier = load.tiers[i];
    flush_under_way = flush_under_way || tier.FlushCanFree();
    if (tier.slot_bytes < chunk_bytes || !tier.HasRoom()) continue;
    const double rate = tier.curve == nullptr ? std::numeric_limits<double>::infinity() : tier.curve->PerWriter(tier.writers + 1);
    if (rate > fastest_rate) {
      fastest_rate = rate;
      fastest = i;
    }
    if (rate > best_rate) {
      best_rate = rate;
      best = i;
    }
  }
  if (best) return {PlaceDecision::Kind::kTier, *best};
  if (fastest)
    return flush_under_way ? PlaceDecision{PlaceDecision::Kind::kWait} : PlaceDecision{PlaceDecision::Kind::kTier, *fastest};
  return {FlushCanFreeFor(load, chunk_bytes) ? PlaceDecision::Kind::kWait : PlaceDecision::Kind::kThrough};
}

std::optional<size_t> Paper::NextFlush(const NodeLoad&, std::span<const FlushCandidate> candidates) {
  return OldestCandidate(candidates);
}

}  // namespace kedge
