#include "store/testing/promise_ledger.h"

#include <algorithm>

#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge::testing {

void Ledger::AllowRemoval(const std::string& name, uint32_t keep) {
  keep_[name] = keep;
  std::set<int64_t> kept;
  for (auto it = acknowledged_.rbegin(); it != acknowledged_.rend(); ++it) {
    if (it->name != name || pinned_.contains(*it) || may_go_.contains(*it)) continue;
    const bool superseded = kept.contains(it->version);
    if (!superseded && kept.size() < keep) {
      kept.insert(it->version);
    } else {
      may_go_.insert(*it);
    }
  }
  if (!kept.empty()) least_kept_[name] = *kept.begin();
}

int64_t Ledger::GreatestVersion() const {
  int64_t greatest = -1;
  for (const Generation& generation : acknowledged_) greatest = std::max(greatest, generation.version);
  return greatest;
}

Status Ledger::Check(const Catalog& catalog) const {
  std::set<Generation> complete;
  std::vector<std::string> skipped;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, catalog.Jobs(&skipped));
  for (const std::string& job : jobs) {
    KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> names, catalog.Names(job, &skipped));
    for (const std::string& name : names) {
      KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, job, name));
      for (const VersionInfo& info : versions) {
        if (!info.complete) continue;
        complete.insert(info.generation);
        const Status right = CheckVersion(catalog, info.generation);
        if (!right.ok()) return right.WithContext("reported complete, does not restore: " + info.generation.ToString());
      }
    }
  }
  if (!skipped.empty()) return Status(Code::kCorrupt, skipped.front());
  for (const Generation& generation : acknowledged_) {
    if (may_go_.contains(generation)) continue;
    const auto least = least_kept_.find(generation.name);
    const bool too_old = least != least_kept_.end() && generation.version < least->second;
    std::set<int64_t> newer;
    for (const Generation& other : complete) {
      if (other.name == generation.name && other.version > generation.version) newer.insert(other.version);
    }
    const auto keep = keep_.find(generation.name);
    const bool is_outlived = keep != keep_.end() && newer.size() >= keep->second;
    if ((too_old || is_outlived) && !pinned_.contains(generation)) continue;
    // A later taking may stand in its place; everything else may not.
    const auto same_version = [&](const Generation& other) {
      return other.name == generation.name && other.version == generation.version && other >= generation;
    };
    if (std::none_of(complete.begin(), complete.end(), same_version)) {
      return Status(Code::kIncomplete, "was reported complete, and is not any more: " + generation.ToString());
    }
  }
  return Status::Ok();
}

}  // namespace kedge::testing
