// Where the stripes of an XOR or Reed-Solomon set lie: rotated, as in RAID 5, so that all members do the same work.
//
// What is encoded of an image is its thin stream (natural.h), most often all of it, and here called its stream.
// With n members, k of them parity in each stripe, an image's stream is cut into n - k segments of equal length (the
// longest image's, rounded up to blocks; shorter images end in zeros, which nobody reads). There are n stripes. A stripe
// has n positions; position p is at member (stripe + p) mod n: positions 0 to k-1 are parity rows, the others data columns.
// Member m's data segment t belongs to stripe (m + 1 + t) mod n; its parity object is its k parity segments, that of row r
// (stripe (m - r) mod n) at r * segment_bytes. So each member holds k / (n - k) of the longest image, and pulls k times an
// image to make it. [Sato 5.5.1, figure 5.10] has the same layout for k = 1.
#pragma once

#include <cstdint>

#include "format/set_records.h"

namespace kedge::redundancy {

// The block size for an image of that length: 1/256 of it, a power of two, within kBlockBytesMin and kBlockBytesMax. Never
// falls as lengths grow, so that a shorter image's table can be coarsened to a longer one's blocks.
uint32_t BlockBytesFor(uint64_t image_bytes);

// The largest block of the members' tables: those of the set are no smaller.
uint32_t LargestBlockOf(const SetRecord& set);

// A block: of a member's stream, or of its parity object. `offset` is a multiple of the block size.
struct BlockRef {
  uint32_t member = 0;
  bool parity = false;
  uint64_t offset = 0;
  friend auto operator<=>(const BlockRef&, const BlockRef&) = default;
};

// A block's place in the code: positions of one stripe at the same `within` are one code word.
struct CodePlace {
  uint32_t stripe = 0;
  uint32_t position = 0;
  uint64_t within = 0;  // offset in the segment
  friend bool operator==(const CodePlace&, const CodePlace&) = default;
};

class Geometry {
 public:
  // 1 <= parity < members <= kSetMembersMax. `longest_bytes`: of their thin streams (natural.h); no block is smaller than
  // `block_bytes_least`, a block size.
  Geometry(uint32_t members, uint32_t parity, uint64_t longest_bytes, uint32_t block_bytes_least = kBlockBytesMin);
  // Of a valid set record of scheme XOR or Reed-Solomon.
  explicit Geometry(const SetRecord& set);

  uint32_t members() const { return members_; }
  uint32_t parity() const { return parity_; }
  uint32_t data() const { return members_ - parity_; }
  uint32_t block_bytes() const { return block_bytes_; }
  uint64_t segment_bytes() const { return segment_bytes_; }
  // Of each member's parity object: a multiple of block_bytes(); zero when all images are empty.
  uint64_t parity_bytes() const { return parity_ * segment_bytes_; }

  // The two are each other's inverse. `block` lies within n - k segments (data) or k segments (parity).
  CodePlace PlaceOf(const BlockRef& block) const;
  BlockRef At(const CodePlace& place) const;

 private:
  uint32_t members_;
  uint32_t parity_;
  uint32_t block_bytes_;
  uint64_t segment_bytes_;
};

}  // namespace kedge::redundancy
