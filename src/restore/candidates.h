// Which generations a restart may choose from: what each rank can restore, and what all ranks have in common.
//
// Ranks compare exact generations, never version numbers alone, so that parts of two takings of one version are never put
// together. Pure; the lists come from the store's catalog and the agent, and travel through the bootstrap.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/store_records.h"
#include "store/eligible.h"

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

// Of one rank, and how many checkpoints of the name it has counted in its attempt (client/core/ledger.h).
std::string EncodeCandidates(const std::vector<RestoreCandidate>& candidates, uint32_t takes);

struct CommonCandidates {
  // In the list of every rank that it has an image of (others go without one of their own), and allowed by the rule, newest
  // first.
  std::vector<RestoreCandidate> candidates;
  std::vector<RestoreCandidate> abandoned;  // in these lists, too, but not of the lineage
  bool is_newest = true;                    // no rank has a newer one that others lack
  bool goes_back = false;                   // only the asked-for one may be chosen, of which some rank has something
  bool misses_asked = false;                // no rank has the asked-for one, nor has the job gone on from it
  uint32_t takes = 0;                       // the most that a rank has counted
};
// Which of them may be chosen (store/eligible.h).
struct CandidateRule {
  std::vector<RestoredRecord> restored;  // of the name
  AskedVersion asked;
  std::vector<RestoreCandidate> withdrawn;  // never chosen, nor waited for; ranks are not compared
  bool IsWithdrawn(const RestoreCandidate& candidate) const;
};
// From encoded lists. What the ranks have in common counts as complete. kInternal: one that EncodeCandidates did not make.
Result<CommonCandidates> IntersectCandidates(const std::vector<std::string>& of_ranks, const CandidateRule& rule);

// What the store has of a name, as rank 0 tells all ranks.
struct StoredCandidate {
  RestoreCandidate candidate;
  std::vector<RankRun> ranks;  // whose images are there; none: all
  bool HasRank(uint32_t rank) const { return ranks.empty() || Contains(ranks, rank); }
};
struct StoredCandidates {
  std::vector<StoredCandidate> candidates;  // at most kStoredCandidatesMax, newest first
  std::vector<RestoreCandidate>
      withdrawn;  // somebody has removed them (store/retention.h): whoever has them must not go on from them
  Status status;  // why the store could not be looked into: there may be newer ones
};
inline constexpr size_t kStoredCandidatesMax = 4096;

// Of the newest one that is not whole there, for people; empty: all are.
std::string WhatIsMissing(const StoredCandidates& stored);

std::string EncodeStored(const StoredCandidates& stored);
// kInternal: not what EncodeStored made.
Result<StoredCandidates> DecodeStored(const std::string& text);

}  // namespace kedge
