// See redistribution.h.
#include "client/restart/redistribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/log.h"

namespace kedge::client {
namespace {

// More images than this are opened a second time.
constexpr size_t kOpenImagesMax = 64;

Status CannotBeTakenApart(const std::string& what) {
  return Status(Code::kMismatch, what + " comes back on as many ranks as it was saved by only");
}

}  // namespace

Result<std::vector<SavedPart>> Redistribution::ReadShare() {
  std::vector<SavedPart> parts;
  for (uint32_t rank = FirstOf(core_->rank()); rank < FirstOf(core_->rank() + 1); ++rank) {
    KEDGE_ASSIGN_OR_RETURN(auto image, opener_->Open(name_, candidate_, rank));
    for (const Region& region : image->record().regions) {
      if (region.kind == RegionKind::kFile) continue;
      if (IsHeapBlock(region)) return CannotBeTakenApart("memory of kedge_alloc");
      parts.push_back({rank, region});
    }
    // What came from other nodes takes room here, which the next one may need.
    if (open_.size() < kOpenImagesMax && !image->was_brought()) open_.emplace(rank, std::move(image));
  }
  return parts;
}

Status Redistribution::Plan(std::vector<SavedPart> parts) {
  const SavedArrays saved(std::move(parts));
  // Ranks begin at different images, in the order in which the arrays' parts lie.
  const uint32_t first = FirstOf(core_->rank());
  steps_.clear();
  for (DeclaredRegion& declared : core_->regions.current().regions()) {
    const Region& wanted = declared.description;
    if (declared.is_block) return CannotBeTakenApart("memory of kedge_alloc");
    if (wanted.kind == RegionKind::kObject) return CannotBeTakenApart(fmt::format("object {}", wanted.id));
    KEDGE_ASSIGN_OR_RETURN(std::vector<TakenBoxes> plan, saved.Plan(wanted, first));
    for (TakenBoxes& taken : plan) steps_.push_back({taken.rank, taken.id, &declared, std::move(taken.boxes)});
  }
  std::ranges::stable_sort(steps_, {},
                           [&](const Step& step) { return (step.rank + candidate_.ranks - first) % candidate_.ranks; });
  std::erase_if(open_, [&](const auto& open) { return std::ranges::find(steps_, open.first, &Step::rank) == steps_.end(); });
  if (core_->rank() == 0) WarnOfTheRest(saved);
  return Status::Ok();
}

void Redistribution::WarnOfTheRest(const SavedArrays& saved) const {
  std::set<std::string> declared;
  for (const DeclaredRegion& region : core_->regions.current().regions()) declared.insert(ArrayNameOf(region.description));
  for (const auto& [array, parts] : saved.by_name()) {
    if (declared.contains(array)) continue;
    LogWarning("client", "array '{}' is in the checkpoint, but rank 0 has no part of it protected: it is left out there", array);
  }
}

Result<std::unique_ptr<OpenImage>> Redistribution::TakeOpen(uint32_t rank) {
  auto open = open_.extract(rank);
  if (open.empty()) return opener_->Open(name_, candidate_, rank);
  return std::move(open.mapped());
}

Status Redistribution::Read(const std::function<void(const OpenImage&)>& count) {
  for (std::span<const Step> left(steps_); !left.empty();) {
    const uint32_t rank = left.front().rank;
    const auto last = std::ranges::find_if(left, [&](const Step& step) { return step.rank != rank; });
    const auto steps = left.first(static_cast<size_t>(last - left.begin()));
    left = left.subspan(steps.size());
    KEDGE_ASSIGN_OR_RETURN(auto image, TakeOpen(rank));
    Status status = ReadOnce(*image, steps);
    count(*image);
    if (opener_->MayBeReplaced(*image, status)) {
      const ImageIdentity identity = image->record().identity;
      image.reset();  // its slots are let go, so that they can be replaced
      if (auto replaced = opener_->OpenReplaced(identity, status); replaced.ok()) {
        status = ReadOnce(**replaced, steps);
        count(**replaced);
      }
    }
    KEDGE_RETURN_IF_ERROR(status);
  }
  return Status::Ok();
}

Status Redistribution::ReadOnce(const OpenImage& image, std::span<const Step> steps) {
  std::vector<RegionTarget> targets;
  for (const Step& step : steps) {
    const int region = image.reader().FindRegion(step.id);
    if (region < 0) {
      return Status(Code::kCorrupt, fmt::format("the image of rank {} has no region {} any more", step.rank, step.id));
    }
    const auto index = static_cast<uint32_t>(region);
    KEDGE_ASSIGN_OR_RETURN(RegionTarget target,
                           TargetOf(image.record().regions[index], index, step.boxes, step.declared->description,
                                    static_cast<std::byte*>(step.declared->address)));
    targets.push_back(std::move(target));
  }
  return image.reader().ReadRegions(targets, &buffers_);
}

}  // namespace kedge::client
