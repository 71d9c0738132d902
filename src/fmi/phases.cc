#include "fmi/phases.h"

namespace kedge::fmi {
namespace {

bool HasDoneAsMuch(Place other, Place own) {
  return other.epoch == own.epoch && other.phase >= own.phase;
}

}  // namespace

Step NextStep(Place own, uint32_t epoch, const std::vector<Place>& all) {
  if (own.epoch != epoch) return Step::kBroken;
  // Who runs leaves when it wants to.
  if (own.phase == Phase::kRunning) return Step::kWait;
  return Missing(own, all).empty() ? Step::kAdvance : Step::kWait;
}

std::vector<uint32_t> Missing(Place own, const std::vector<Place>& all) {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    if (!HasDoneAsMuch(all[rank], own)) missing.push_back(rank);
  }
  return missing;
}

}  // namespace kedge::fmi
