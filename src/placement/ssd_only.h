// The policy "ssd-only"; see its .cc.
#pragma once

#include "placement/policy.h"

namespace kedge {

class SsdOnly final : public PlacementPolicy {
 public:
  PlaceDecision Place(const NodeLoad& load, uint64_t chunk_bytes) override;
  std::optional<size_t> NextFlush(const NodeLoad& load, std::span<const FlushCandidate> candidates) override;
};

}  // namespace kedge
