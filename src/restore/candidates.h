// Which generations a restart may choose from: what each rank can restore, and what all ranks have in common.
//
// Ranks compare exact generations, never version numbers alone, so that parts of two takings of one version are never put
// together (rule 1). Pure; the lists come from the store's catalog and the agent, and travel through the bootstrap.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace kedge {

// One generation of one (store, job, name).
struct RestoreCandidate {
  int64_t version = 0;
  uint32_t attempt = 0;
  uint32_t take = 0;
  uint32_t ranks = 0;  // that it was taken with

  friend auto operator<=>(const RestoreCandidate&, const RestoreCandidate&) = default;
};

// Sorted, newest first, each once.
void SortCandidates(std::vector<RestoreCandidate>* candidates);

std::string EncodeCandidates(const std::vector<RestoreCandidate>& candidates);

struct CommonCandidates {
  std::vector<RestoreCandidate> candidates;  // in every rank's list, newest first
  bool is_newest = true;                     // no rank has a newer one that others lack
};
// From encoded lists. kInternal: one that EncodeCandidates did not make.
Result<CommonCandidates> IntersectCandidates(const std::vector<std::string>& of_ranks);

}  // namespace kedge
