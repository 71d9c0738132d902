// Which bytes of an object are which part of its upload.
//
// An upload has at most 10,000 parts, and how large an object becomes is not known when its first part goes. So the parts grow:
// the first thousand have the location's size, the next thousand twice that, and so on up to the protocol's limit. Whoever
// knows the first size knows them all.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kedge::s3 {

inline constexpr uint32_t kPartsMax = 10000;

class PartLayout {
 public:
  explicit PartLayout(uint64_t first_bytes) : first_bytes_(first_bytes) {}

  // From 1 on.
  uint32_t NumberOf(uint64_t offset) const {
    uint32_t number = 1;
    for (uint64_t begin = 0;; number += kPartsOfASize) {
      const uint64_t bytes = BytesOf(number);
      const uint64_t end = begin + bytes * kPartsOfASize;
      if (offset < end) return number + static_cast<uint32_t>((offset - begin) / bytes);
      begin = end;
    }
  }
  uint64_t BytesOf(uint32_t number) const {
    const uint32_t doublings = std::min((number - 1) / kPartsOfASize, kDoublingsMax);
    return std::min(first_bytes_ << doublings, kLargestBytes);
  }
  uint64_t BeginOf(uint32_t number) const {
    uint64_t begin = 0;
    uint32_t first = 1;
    for (; first + kPartsOfASize <= number; first += kPartsOfASize) begin += BytesOf(first) * kPartsOfASize;
    return begin + BytesOf(first) * (number - first);
  }
  uint64_t EndOf(uint32_t number) const { return BeginOf(number) + BytesOf(number); }
  // The first beginning of a part that is not before `offset`.
  uint64_t NextBorder(uint64_t offset) const { return offset == 0 ? 0 : EndOf(NumberOf(offset - 1)); }

 private:
  static constexpr uint32_t kPartsOfASize = 1000;
  static constexpr uint32_t kDoublingsMax = 9;
  static constexpr uint64_t kLargestBytes = uint64_t{4} << 30;

  uint64_t first_bytes_;
};

}  // namespace kedge::s3
