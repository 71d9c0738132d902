#include "placement/policy.h"

#include <algorithm>
#include <array>

#include "placement/adaptive.h"
#include "placement/cache_only.h"
#include "placement/naive.h"
#include "placement/paper.h"
#include "placement/ssd_only.h"

namespace kedge {
namespace {

template <typename Policy>
std::unique_ptr<PlacementPolicy> Make(const Clock& clock) {
  if constexpr (std::is_constructible_v<Policy, const Clock&>) {
    return std::make_unique<Policy>(clock);
  } else {
    return std::make_unique<Policy>();
  }
}

struct Entry {
  std::string_view name;
  std::unique_ptr<PlacementPolicy> (*make)(const Clock&);
};
constexpr std::array<Entry, 5> kPolicies = {{{"adaptive", Make<Adaptive>},
                                             {"paper", Make<Paper>},
                                             {"naive", Make<Naive>},
                                             {"ssd-only", Make<SsdOnly>},
                                             {"cache-only", Make<CacheOnly>}}};

}  // namespace

std::unique_ptr<PlacementPolicy> MakePlacementPolicy(std::string_view name, const Clock& clock) {
  for (const Entry& entry : kPolicies) {
    if (entry.name == name) return entry.make(clock);
  }
  return nullptr;
}

std::vector<std::string_view> PlacementPolicyNames() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kPolicies) names.push_back(entry.name);
  return names;
}

size_t OldestCandidate(std::span<const FlushCandidate> candidates) {
  const auto oldest = std::min_element(candidates.begin(), candidates.end(),
                                       [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return static_cast<size_t>(oldest - candidates.begin());
}

bool FlushCanFreeFor(const NodeLoad& load, uint64_t chunk_bytes) {
  return std::any_of(load.tiers.begin(), load.tiers.end(),
                     [&](const TierLoad& tier) { return tier.FlushCanFree() && tier.slot_bytes >= chunk_bytes; });
}

PlaceDecision FirstWithRoom(const NodeLoad& load, size_t begin, size_t end, uint64_t chunk_bytes) {
  bool flush_can_free = false;
  for (size_t i = begin; i < end; ++i) {
    const TierLoad& tier = load.tiers[i];
    if (tier.slot_bytes < chunk_bytes) continue;
    if (tier.HasRoom()) return {PlaceDecision::Kind::kTier, i};
    flush_can_free = flush_can_free || tier.FlushCanFree();
  }
  return {flush_can_free ? PlaceDecision::Kind::kWait : PlaceDecision::Kind::kThrough};
}

}  // namespace kedge
