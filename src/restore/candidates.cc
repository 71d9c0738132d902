// See candidates.h.
#include "restore/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "format/wire.h"
#include "store/lineage.h"

namespace kedge {
namespace {

void EncodeFields(Encoder& encoder, const RestoreCandidate& candidate) {
  encoder.SignedVarint(candidate.version);
  encoder.Varint(candidate.attempt);
  encoder.Varint(candidate.take);
  encoder.Varint(candidate.ranks);
}

RestoreCandidate DecodeFields(Decoder& decoder) {
  RestoreCandidate candidate;
  candidate.version = decoder.SignedVarint();
  candidate.attempt = decoder.Varint32();
  candidate.take = decoder.Varint32();
  candidate.ranks = decoder.Varint32();
  return candidate;
}

Status Finish(Decoder& decoder, const char* what) {
  Status status = decoder.Finish(what);
  return status.ok() ? status : Status(Code::kInternal, status.message());
}

Result<std::vector<RestoreCandidate>> Decode(const std::string& text, uint32_t* takes) {
  Decoder decoder(AsBytes(text));
  *takes = decoder.Varint32();
  std::vector<RestoreCandidate> candidates(decoder.Count(4));
  for (RestoreCandidate& candidate : candidates) candidate = DecodeFields(decoder);
  KEDGE_RETURN_IF_ERROR(Finish(decoder, "restart candidates of a rank"));
  return candidates;
}

}  // namespace

void SortCandidates(std::vector<RestoreCandidate>* candidates) {
  std::sort(candidates->begin(), candidates->end(), std::greater<>());
  candidates->erase(std::unique(candidates->begin(), candidates->end()), candidates->end());
}

std::string EncodeCandidates(const std::vector<RestoreCandidate>& candidates, uint32_t takes) {
  Buffer buffer;
  Encoder encoder(buffer);
  encoder.Varint(takes);
  encoder.Varint(candidates.size());
  for (const RestoreCandidate& candidate : candidates) EncodeFields(encoder, candidate);
  encoder.Finish();
  return std::string(AsText(buffer));
}

std::string WhatIsMissing(const StoredCandidates& stored) {
  for (const auto& [candidate, ranks] : stored.candidates) {
    if (ranks.empty()) continue;
    uint32_t missing = 0;
    while (Contains(ranks, missing)) ++missing;
    return fmt::format("the store has no image of rank {} of version {}, which others have: every rank takes every checkpoint",
                       missing, candidate.version);
  }
  return {};
}

std::string EncodeStored(const StoredCandidates& stored) {
  Buffer buffer;
  Encoder encoder(buffer);
  encoder.Varint(static_cast<uint64_t>(stored.status.code()));
  encoder.String(stored.status.message());
  encoder.Varint(stored.candidates.size());
  for (const StoredCandidate& one : stored.candidates) {
    EncodeFields(encoder, one.candidate);
    encoder.Varint(one.ranks.size());
    for (const RankRun& run : one.ranks) {
      encoder.Varint(run.first);
      encoder.Varint(run.stride);
      encoder.Varint(run.count);
    }
  }
  encoder.Varint(stored.withdrawn.size());
  for (const RestoreCandidate& one : stored.withdrawn) EncodeFields(encoder, one);
  encoder.Finish();
  return std::string(AsText(buffer));
}

Result<StoredCandidates> DecodeStored(const std::string& text) {
  Decoder decoder(AsBytes(text));
  StoredCandidates stored;
  const auto code = static_cast<Code>(decoder.Varint32());
  const std::string message(decoder.String(1 << 16));
  if (code != Code::kOk) stored.status = Status(code, message);
  stored.candidates.resize(decoder.Count(5));
  for (StoredCandidate& one : stored.candidates) {
    one.candidate = DecodeFields(decoder);
    one.ranks.resize(decoder.Count(3));
    for (RankRun& run : one.ranks) {
      run.first = decoder.Varint32();
      run.stride = decoder.Varint32();
      run.count = decoder.Varint32();
      decoder.Require(run.stride >= 1, "a run of ranks without a stride");
    }
  }
  stored.withdrawn.resize(decoder.Count(4));
  for (RestoreCandidate& one : stored.withdrawn) one = DecodeFields(decoder);
  KEDGE_RETURN_IF_ERROR(Finish(decoder, "rank 0's list of what the store has"));
  return stored;
}

namespace {

Generation GenerationOf(const RestoreCandidate& candidate) {
  Generation generation;
  generation.version = candidate.version;
  generation.attempt = candidate.attempt;
  generation.take = candidate.take;
  return generation;
}

Moment MomentOf(const RestoreCandidate& candidate) {
  return {candidate.attempt, candidate.take};
}

}  // namespace

bool CandidateRule::IsWithdrawn(const RestoreCandidate& candidate) const {
  return std::any_of(withdrawn.begin(), withdrawn.end(), [&](const RestoreCandidate& one) {
    return one.version == candidate.version && MomentOf(one) == MomentOf(candidate);
  });
}

Result<CommonCandidates> IntersectCandidates(const std::vector<std::string>& of_ranks, const CandidateRule& rule) {
  std::vector<RestoreCandidate> all;
  std::map<RestoreCandidate, size_t> holders;  // of the ranks that the version has an image of
  uint32_t most = 0;
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    uint32_t takes = 0;
    KEDGE_ASSIGN_OR_RETURN(std::vector<RestoreCandidate> candidates, Decode(of_ranks[rank], &takes));
    most = std::max(most, takes);
    SortCandidates(&candidates);
    std::erase_if(candidates, [&](const RestoreCandidate& candidate) { return rule.IsWithdrawn(candidate); });
    all.insert(all.end(), candidates.begin(), candidates.end());
    for (const RestoreCandidate& candidate : candidates) holders[candidate] += rank < candidate.ranks ? 1 : 0;
  }
  std::vector<RestoreCandidate> common;
  for (const auto& [candidate, count] : holders) {
    if (count == std::min<size_t>(of_ranks.size(), candidate.ranks)) common.push_back(candidate);
  }
  SortCandidates(&common);
  std::vector<Generation> complete;
  for (const RestoreCandidate& candidate : common) complete.push_back(GenerationOf(candidate));
  const Lineage lineage(rule.restored, complete);
  std::vector<Generation> there;
  for (const RestoreCandidate& candidate : all) there.push_back(GenerationOf(candidate));
  const Eligible eligible(lineage, rule.asked, rule.restored, there);
  CommonCandidates result;
  result.takes = most;
  result.goes_back = eligible.goes_back();
  result.misses_asked = eligible.misses_asked();
  for (const RestoreCandidate& candidate : common) {
    const Generation generation = GenerationOf(candidate);
    if (eligible.Has(generation)) {
      result.candidates.push_back(candidate);
    } else if (!lineage.Has(generation)) {
      result.abandoned.push_back(candidate);
    }
  }
  std::erase_if(all, [&](const RestoreCandidate& candidate) { return !eligible.Has(GenerationOf(candidate)); });
  // Newer in both ways: what was taken later may make another version the newest.
  const RestoreCandidate* const chosen = result.candidates.empty() ? nullptr : &result.candidates.front();
  result.is_newest = std::all_of(all.begin(), all.end(), [&](const RestoreCandidate& candidate) {
    if (chosen == nullptr) return false;
    return candidate <= *chosen && MomentOf(candidate) <= MomentOf(*chosen);
  });
  return result;
}

}  // namespace kedge
