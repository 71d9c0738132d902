#include "redundancy/geometry.h"

#include <algorithm>
#include <bit>

namespace kedge::redundancy {

namespace {

constexpr uint64_t kBlocksAnImage = 256;

uint64_t LongestOf(const SetRecord& set) {
  uint64_t longest = 0;
  for (const SetMember& member : set.members) longest = std::max(longest, member.thin_bytes());
  return longest;
}

uint64_t DivideUp(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0);
}

}  // namespace

uint32_t BlockBytesFor(uint64_t image_bytes) {
  const uint64_t bytes = std::bit_floor(image_bytes / kBlocksAnImage);
  return static_cast<uint32_t>(std::clamp<uint64_t>(bytes, kBlockBytesMin, kBlockBytesMax));
}

Geometry::Geometry(uint32_t members, uint32_t parity, uint64_t longest_bytes, uint32_t block_bytes_least)
    : members_(members), parity_(parity), block_bytes_(std::max(BlockBytesFor(longest_bytes), block_bytes_least)) {
  KEDGE_CHECK(parity >= 1 && parity < members && members <= kSetMembersMax);
  segment_bytes_ = DivideUp(DivideUp(longest_bytes, data()), block_bytes_) * block_bytes_;
}

uint32_t LargestBlockOf(const SetRecord& set) {
  uint32_t largest = kBlockBytesMin;
  for (const SetMember& member : set.members) largest = std::max(largest, member.blocks.block_bytes);
  return largest;
}

Geometry::Geometry(const SetRecord& set)
    : Geometry(static_cast<uint32_t>(set.members.size()), set.parity, LongestOf(set), LargestBlockOf(set)) {}

CodePlace Geometry::PlaceOf(const BlockRef& block) const {
  const auto segment = static_cast<uint32_t>(block.offset / segment_bytes_);
  const uint64_t within = block.offset % segment_bytes_;
  if (block.parity) {
    KEDGE_CHECK(segment < parity_);
    return {(block.member + members_ - segment) % members_, segment, within};
  }
  KEDGE_CHECK(segment < data());
  const uint32_t stripe = (block.member + 1 + segment) % members_;
  return {stripe, (block.member + members_ - stripe) % members_, within};
}

BlockRef Geometry::At(const CodePlace& place) const {
  const uint32_t member = (place.stripe + place.position) % members_;
  if (place.position < parity_) return {member, true, place.position * segment_bytes_ + place.within};
  const uint32_t segment = (place.stripe + 2 * members_ - member - 1) % members_;
  return {member, false, segment * segment_bytes_ + place.within};
}

}  // namespace kedge::redundancy
