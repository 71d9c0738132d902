// "cache-only": the first tier alone; when it is full, wait for a flush that frees a slot of it, else through to the store.
// In [VeloC] V-B it is the ideal case, with a cache that holds everything; the scenario runner gives it such a cache.
#include "placement/cache_only.h"

#include <algorithm>

namespace kedge {

PlaceDecision CacheOnly::Place(const NodeLoad& load, uint64_t chunk_bytes) {
  return FirstWithRoom(load, 0, std::min<size_t>(1, load.tiers.size()), chunk_bytes);
}

std::optional<size_t> CacheOnly::NextFlush(const NodeLoad&, std::span<const FlushCandidate> candidates) {
  return OldestCandidate(candidates);
}

}  // namespace kedge
