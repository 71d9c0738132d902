#include "placement/policy.h"

#include "placement/fastest_with_room.h"

namespace kedge {

std::unique_ptr<PlacementPolicy> MakePlacementPolicy(std::string_view name, const Clock&) {
  if (name == "fastest-with-room") return std::make_unique<FastestWithRoom>();
  return nullptr;
}

}  // namespace kedge
