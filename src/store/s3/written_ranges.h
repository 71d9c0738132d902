// Which bytes of an object have been written.
//
// Chunks begin at multiples of 4 KiB, and what lies between the end of one and the beginning of the next is written by nobody:
// such a gap counts as written as soon as both sides are.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace kedge::s3 {

class WrittenRanges {
 public:
  void Add(uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin()) {
      const auto before = std::prev(next);
      if (before->second >= begin || Reaches(before->second, begin)) {
        begin = before->first;
        end = end > before->second ? end : before->second;
        ranges_.erase(before);
      }
    }
    while (next != ranges_.end() && (next->first <= end || Reaches(end, next->first))) {
      end = end > next->second ? end : next->second;
      next = ranges_.erase(next);
    }
    ranges_.emplace(begin, end);
  }
  bool Cover(uint64_t begin, uint64_t end) const {
    const auto after = ranges_.upper_bound(begin);
    return after != ranges_.begin() && std::prev(after)->second >= end;
  }
  // Behind the last one; 0: none was written.
  uint64_t end() const { return ranges_.empty() ? 0 : std::prev(ranges_.end())->second; }

 private:
  static constexpr uint64_t kAlignment = 4096;
  static bool Reaches(uint64_t end, uint64_t begin) { return (end + kAlignment - 1) / kAlignment * kAlignment == begin; }

  std::map<uint64_t, uint64_t> ranges_;  // begin to end, apart from each other
};

}  // namespace kedge::s3
