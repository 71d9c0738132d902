// "ssd-only": every tier but the first, in their order ([VeloC] V-B: the worst case, without a cache). A node that has one
// tier uses it.
#include "placement/ssd_only.h"

namespace kedge {

PlaceDecision SsdOnly::Place(const NodeLoad& load, uint64_t chunk_bytes) {
  return FirstWithRoom(load, load.tiers.size() > 1 ? 1 : 0, load.tiers.size(), chunk_bytes);
}

std::optional<size_t> SsdOnly::NextFlush(const NodeLoad&, std::span<const FlushCandidate> candidates) {
  return OldestCandidate(candidates);
}

}  // namespace kedge
