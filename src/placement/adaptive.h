// The policy "adaptive"; see its .cc.
#pragma once

#include "placement/policy.h"

namespace kedge {

class Adaptive final : public PlacementPolicy {
 public:
  explicit Adaptive(const Clock& clock) : clock_(clock) {}
  PlaceDecision Place(const NodeLoad& load, uint64_t chunk_bytes) override;
  std::optional<size_t> NextFlush(const NodeLoad& load, std::span<const FlushCandidate> candidates) override;

 private:
  struct Faster;
  static Faster FasterThan(const NodeLoad& load, size_t tier, uint64_t chunk_bytes);
  static bool StoreStaysBusy(const NodeLoad& load, const Faster& faster, uint64_t chunk_bytes, double seconds);
  bool IsWorth(const NodeLoad& load, size_t tier, uint64_t chunk_bytes) const;

  const Clock& clock_;
  uint64_t flushes_ = 0;
};

}  // namespace kedge
