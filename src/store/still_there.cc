#include "store/still_there.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "store/lineage.h"
#include "store/versions.h"

namespace kedge {
namespace {

// By retention, of which its mark or a later version tells.
Result<bool> WasLetGo(const Catalog& catalog, const Generation& generation, const Result<VersionInfo>& info) {
  if (info.ok() && info->removed) return true;
  const auto is_later = [&](const Generation& other) { return MomentOf(other) > MomentOf(generation); };
  // All of them: whether one is abandoned the others tell.
  KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, generation.job, generation.name));
  return std::any_of(versions.begin(), versions.end(),
                     [&](const VersionInfo& other) { return other.complete && !other.abandoned && is_later(other.generation); });
}

Result<Seen> MissingOf(const Catalog& catalog, const Seen& seen) {
  Seen missing{seen.generation, false, {}};
  const Result<VersionInfo> info = InspectGeneration(catalog, seen.generation);
  // Something else in the place of a folder is damage, and tells nothing of what was in it.
  const bool is_told = info.ok() || (info.status().code() == Code::kNotFound && info.status().errno_value() != ENOTDIR);
  if (!is_told) return info.status();
  if (info.ok() && info->complete) return missing;
  if (info.ok() && info->unknown) return Status(Code::kCorrupt, seen.generation.ToString() + ": " + info->reason);
  KEDGE_ASSIGN_OR_RETURN(const bool was_let_go, WasLetGo(catalog, seen.generation, info));
  if (was_let_go) return missing;
  missing.complete = seen.complete;
  std::set<uint32_t> there;
  if (info.ok()) {
    KEDGE_ASSIGN_OR_RETURN(const std::vector<PartRecord> parts, ReadParts(catalog, seen.generation, nullptr));
    for (const PartRecord& part : parts) {
      for (const ImageEntry& image : part.images) there.insert(image.rank);
    }
  }
  std::copy_if(seen.ranks.begin(), seen.ranks.end(), std::back_inserter(missing.ranks),
               [&](uint32_t rank) { return !there.contains(rank); });
  return missing;
}

}  // namespace

Result<std::vector<Seen>> FindMissing(const Catalog& catalog, const std::vector<Seen>& seen) {
  std::vector<Seen> missing;
  for (const Seen& one : seen) {
    KEDGE_ASSIGN_OR_RETURN(Seen of_it, MissingOf(catalog, one));
    if (of_it.complete || !of_it.ranks.empty()) missing.push_back(std::move(of_it));
  }
  // Nothing is found in a store that has gone away meanwhile.
  if (!missing.empty()) KEDGE_RETURN_IF_ERROR(catalog.Confirm());
  return missing;
}

}  // namespace kedge
