// See candidates.h.
#include "restore/candidates.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>

#include "format/wire.h"

namespace kedge {
namespace {

Result<std::vector<RestoreCandidate>> Decode(const std::string& text) {
  Decoder decoder(AsBytes(text));
  std::vector<RestoreCandidate> candidates(decoder.Count(4));
  for (RestoreCandidate& candidate : candidates) {
    candidate.version = decoder.SignedVarint();
    candidate.attempt = decoder.Varint32();
    candidate.take = decoder.Varint32();
    candidate.ranks = decoder.Varint32();
  }
  Status status = decoder.Finish("restart candidates of a rank");
  if (!status.ok()) return Status(Code::kInternal, status.message());
  return candidates;
}

}  // namespace

void SortCandidates(std::vector<RestoreCandidate>* candidates) {
  std::sort(candidates->begin(), candidates->end(), std::greater<>());
  candidates->erase(std::unique(candidates->begin(), candidates->end()), candidates->end());
}

std::string EncodeCandidates(const std::vector<RestoreCandidate>& candidates) {
  Buffer buffer;
  Encoder encoder(buffer);
  encoder.Varint(candidates.size());
  for (const RestoreCandidate& candidate : candidates) {
    encoder.SignedVarint(candidate.version);
    encoder.Varint(candidate.attempt);
    encoder.Varint(candidate.take);
    encoder.Varint(candidate.ranks);
  }
  encoder.Finish();
  return std::string(AsText(buffer));
}

Result<CommonCandidates> IntersectCandidates(const std::vector<std::string>& of_ranks) {
  std::vector<RestoreCandidate> common;
  std::optional<RestoreCandidate> newest;
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    KEDGE_ASSIGN_OR_RETURN(std::vector<RestoreCandidate> candidates, Decode(of_ranks[rank]));
    SortCandidates(&candidates);
    if (!candidates.empty()) newest = std::max(newest.value_or(candidates.front()), candidates.front());
    if (rank == 0) {
      common = std::move(candidates);
      continue;
    }
    std::vector<RestoreCandidate> both;
    std::set_intersection(common.begin(), common.end(), candidates.begin(), candidates.end(), std::back_inserter(both),
                          std::greater<>());
    common = std::move(both);
  }
  const bool is_newest = !newest.has_value() || (!common.empty() && common.front() == *newest);
  return CommonCandidates{std::move(common), is_newest};
}

}  // namespace kedge
