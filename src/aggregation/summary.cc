#include "aggregation/summary.h"

#include <algorithm>
#include <cmath>

namespace kedge::aggregation {

namespace {

constexpr uint64_t kHeaderBytes = 24;  // bytes, and the two counts
constexpr uint64_t kCandidateBytes = 13;
constexpr uint64_t kDistrictBytes = 8;

// Image sizes stay below 2^55, so the product fits.
uint64_t Fitness(const Candidate& candidate) {
  return candidate.bytes * (256U - candidate.load);
}

bool IsLarger(const Candidate& a, const Candidate& b) {
  if (a.bytes != b.bytes) return a.bytes > b.bytes;
  return a.load != b.load ? a.load < b.load : a.node < b.node;
}

bool IsFitter(const Candidate& a, const Candidate& b) {
  if (Fitness(a) != Fitness(b)) return Fitness(a) > Fitness(b);
  return a.load != b.load ? a.load < b.load : a.node < b.node;
}

uint64_t KeptOfDistrict(const Line& line, uint32_t leaders, uint32_t district) {
  const uint64_t nodes = line.districts[district + 1] - line.districts[district];
  const uint64_t part = (uint64_t{leaders} * nodes + line.size() - 1) / line.size();
  return std::min(2 * part, nodes);
}

// Marks the first `count` of `of` (indices into `candidates`) by `is_before`.
template <typename IsBefore>
void Mark(const std::vector<Candidate>& candidates, std::vector<uint32_t>& of, uint64_t count, IsBefore is_before,
          std::vector<bool>* kept) {
  const auto by = [&](uint32_t a, uint32_t b) { return is_before(candidates[a], candidates[b]); };
  if (count < of.size()) std::nth_element(of.begin(), of.begin() + static_cast<ptrdiff_t>(count), of.end(), by);
  for (uint64_t i = 0; i < std::min<uint64_t>(count, of.size()); ++i) (*kept)[of[i]] = true;
}

void Prune(const Line& line, uint32_t leaders, std::vector<Candidate>* candidates) {
  if (candidates->size() <= leaders) return;
  std::vector<bool> kept(candidates->size());
  std::vector<uint32_t> all(candidates->size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  std::vector<uint32_t> of_district;
  for (uint32_t i = 0; i < all.size();) {
    const uint32_t district = line.DistrictOf((*candidates)[i].node);
    of_district.clear();
    for (; i < all.size() && (*candidates)[i].node < line.districts[district + 1]; ++i) of_district.push_back(i);
    Mark(*candidates, of_district, KeptOfDistrict(line, leaders, district), IsFitter, &kept);
  }
  Mark(*candidates, all, leaders, IsLarger, &kept);
  Mark(*candidates, all, uint64_t{2} * leaders, IsFitter, &kept);
  size_t end = 0;
  for (size_t i = 0; i < candidates->size(); ++i) {
    if (kept[i]) (*candidates)[end++] = (*candidates)[i];
  }
  candidates->resize(end);
}

}  // namespace

uint8_t LoadOf(double cpu, double memory, double network) {
  const double worst = std::max({cpu, memory, network, 0.0});
  return static_cast<uint8_t>(std::lround(std::min(worst, 1.0) * 255));
}

Summary SummaryOf(const Line& line, uint32_t node, const NodeSize& size) {
  Summary summary;
  summary.bytes = size.bytes;
  summary.district_bytes.resize(line.district_count());
  summary.district_bytes[line.DistrictOf(node)] = size.bytes;
  summary.candidates.push_back({node, size.bytes, size.load});
  return summary;
}

Summary Merge(const Line& line, uint32_t leaders, const Summary& a, const Summary& b) {
  Summary sum;
  sum.bytes = a.bytes + b.bytes;
  sum.district_bytes = a.district_bytes;
  for (size_t i = 0; i < sum.district_bytes.size(); ++i) sum.district_bytes[i] += b.district_bytes[i];
  sum.candidates.resize(a.candidates.size() + b.candidates.size());
  std::merge(a.candidates.begin(), a.candidates.end(), b.candidates.begin(), b.candidates.end(), sum.candidates.begin(),
             [](const Candidate& x, const Candidate& y) { return x.node < y.node; });
  Prune(line, leaders, &sum.candidates);
  return sum;
}

uint64_t MessageBytes(const Summary& summary) {
  return kHeaderBytes + kDistrictBytes * summary.district_bytes.size() + kCandidateBytes * summary.candidates.size();
}

uint64_t MessageBytesMax(const Line& line, uint32_t leaders) {
  uint64_t candidates = uint64_t{3} * leaders;
  for (uint32_t i = 0; i < line.district_count(); ++i) candidates += KeptOfDistrict(line, leaders, i);
  return kHeaderBytes + kDistrictBytes * line.district_count() + kCandidateBytes * std::min<uint64_t>(candidates, line.size());
}

}  // namespace kedge::aggregation
