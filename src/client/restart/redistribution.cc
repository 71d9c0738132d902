// See redistribution.h.
#include "client/restart/redistribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/log.h"

namespace kedge::client {
namespace {

Status CannotBeTakenApart(const std::string& what) {
  return Status(Code::kMismatch, what + " comes back on as many ranks as it was saved by only");
}

}  // namespace

Result<std::vector<SavedPart>> Redistribution::ReadShare() {
  std::vector<SavedPart> parts;
  for (uint32_t rank = core_->rank(); rank < candidate_.ranks; rank += core_->ranks()) {
    KEDGE_ASSIGN_OR_RETURN(const auto image, opener_->Open(name_, candidate_, rank));
    for (const Region& region : image->record().regions) {
      if (region.kind == RegionKind::kFile) continue;
      if (region.kind == RegionKind::kMemory && region.id <= kBlockIdMax) return CannotBeTakenApart("memory of kedge_alloc");
      parts.push_back({rank, region});
    }
  }
  return parts;
}

Status Redistribution::Plan(std::vector<SavedPart> parts) {
  const SavedArrays saved(std::move(parts));
  // Ranks begin at different images, in the order in which the arrays' parts lie.
  const auto first = static_cast<uint32_t>(uint64_t{core_->rank()} * candidate_.ranks / core_->ranks());
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

Status Redistribution::Read(const std::function<void(const OpenImage&)>& count) {
  std::unique_ptr<OpenImage> image;
  const auto close = [&] {
    if (image) count(*image);
    image.reset();
  };
  Status status;
  for (const Step& step : steps_) {
    if (!image || image->record().identity.rank != step.rank) {
      close();
      auto opened = opener_->Open(name_, candidate_, step.rank);
      if (!opened.ok()) return opened.status();
      image = std::move(*opened);
    }
    const int region = image->reader().FindRegion(step.id);
    status = region < 0
                 ? Status(Code::kCorrupt, fmt::format("the image of rank {} has no region {} any more", step.rank, step.id))
                 : ReadBoxes(image->reader(), static_cast<uint32_t>(region), step.boxes, step.declared->description,
                             static_cast<std::byte*>(step.declared->address));
    if (!status.ok()) break;
  }
  close();
  return status;
}

}  // namespace kedge::client
