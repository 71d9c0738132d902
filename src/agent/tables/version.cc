#include "agent/tables/version.h"

#include <algorithm>
#include "agent/tables/job.h"

namespace kedge {

bool HeldObject::IsLost() const {
  return std::any_of(ranges.begin(), ranges.end(), [](const OwnRange& range) { return range.unit->lost; });
}

bool Version::HasLost() const {
  const bool of_images = std::any_of(images.begin(), images.end(), [](const auto& entry) { return entry.second->IsLost(); });
  return of_images || std::any_of(sets.begin(), sets.end(), [](const auto& set) {
           const auto& objects = set.second->objects;
           return std::any_of(objects.begin(), objects.end(), [](const auto& entry) { return entry.second.IsLost(); });
         });
}

bool Version::IsWhole() const {
  return std::count_if(images.begin(), images.end(), [](const auto& entry) { return entry.second->IsHeld(); }) >= node_ranks;
}

Level Version::ReachedLevel() const {
  if (!in_store_) return LevelByNodes();
  return IsOnBufferOnly() ? Level::kBuffer : Level::kStore;
}

Level Version::LevelByNodes() const {
  if (at_node && node_failure.ok()) return Level::kNode;
  return IsAtLocal() ? Level::kLocal : Level::kNone;
}

const Image* Version::FindWhole(uint32_t rank) const {
  const auto found = images.find(rank);
  if (found == images.end()) return nullptr;
  const Image& image = *found->second;
  return image.IsHeld() && !image.HasReleased() ? &image : nullptr;
}

bool Version::IsPromised() const {
  const auto promises = job->promises.find(generation.name);
  return promises != job->promises.end() && promises->second.own == generation;
}

bool Version::IsOnBufferOnly() const {
  return in_store_ && !drained && job->store->store().has_buffer();
}

bool Version::IsAbandoned() const {
  return !job->LineageOf(generation.name).Has(generation);
}

void Version::Weaken(const std::string& why) {
  node_failure =
      Status(Code::kUnavailable, why).WithContext(generation.ToString() + " would not survive the loss of a node any more");
}

bool Version::IsOwedToNodes() const {
  if (!to_node || at_node || !node_failure.ok() || job->layout == nullptr) return false;
  return generation.attempt == job->members.attempt || restored;
}

void Version::Skip() {
  skipped = true;
  scheduled_ = to_node ? Level::kNode : Level::kLocal;
}

}  // namespace kedge
