// See units.h.
#include "client/heap/units.h"

#include <iterator>

namespace kedge::client {

void Units::Extend(uint64_t count) {
  if (count <= count_) return;
  const uint64_t before = count_;
  count_ = count;
  Free(before, count - before);
}

std::optional<uint64_t> Units::Take(uint64_t units, uint64_t alignment) {
  for (auto run = free_.end(); run != free_.begin();) {
    --run;
    if (run->second < units) continue;
    const uint64_t first = (run->first + run->second - units) / alignment * alignment;
    if (first < run->first) continue;
    TakeFrom(run, first, units);
    return first;
  }
  return std::nullopt;
}

bool Units::TakeAt(uint64_t first, uint64_t units) {
  auto run = free_.upper_bound(first);
  if (run == free_.begin()) return false;
  --run;
  if (first + units > run->first + run->second) return false;
  TakeFrom(run, first, units);
  return true;
}

void Units::TakeFrom(Runs::iterator run, uint64_t first, uint64_t units) {
  const uint64_t begin = run->first, end = run->first + run->second;
  free_.erase(run);
  if (first > begin) free_[begin] = first - begin;
  if (first + units < end) free_[first + units] = end - first - units;
}

void Units::Free(uint64_t first, uint64_t units) {
  uint64_t begin = first, end = first + units;
  const auto after = free_.find(end);
  if (after != free_.end()) {
    end += after->second;
    free_.erase(after);
  }
  auto before = free_.lower_bound(begin);
  if (before != free_.begin() && std::prev(before)->first + std::prev(before)->second == begin) {
    before = std::prev(before);
    begin = before->first;
    free_.erase(before);
  }
  free_[begin] = end - begin;
}

}  // namespace kedge::client
