// "naive": the fastest tier with a free or evictable slot; when none has one, wait for a flush that can free one; when there
// is none either, through to the store. Knows nothing of throughput. ([VeloC] V-B: hybrid-naive.)
#include "placement/naive.h"

namespace kedge {

PlaceDecision Naive::Place(const NodeLoad& load, uint64_t chunk_bytes) {
  return FirstWithRoom(load, 0, load.tiers.size(), chunk_bytes);
}

std::optional<size_t> Naive::NextFlush(const NodeLoad&, std::span<const FlushCandidate> candidates) {
  return OldestCandidate(candidates);
}

}  // namespace kedge
