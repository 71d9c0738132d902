#include "redundancy/geometry.h"

#include <gtest/gtest.h>

#include <set>

namespace kedge::redundancy {
namespace {

TEST(Geometry, EveryBlockHasOnePlaceAndEveryPlaceOneBlock) {
  for (const auto& [members, parity] : {std::pair{2u, 1u}, {3u, 1u}, {3u, 2u}, {4u, 2u}, {7u, 3u}, {8u, 1u}}) {
    const Geometry geometry(members, parity, 5 * kBlockBytesMin * (members - parity) - 1);
    std::set<BlockRef> seen;
    for (uint32_t stripe = 0; stripe < members; ++stripe) {
      std::set<uint32_t> at;
      for (uint32_t position = 0; position < members; ++position) {
        const CodePlace place{stripe, position, 2 * kBlockBytesMin};
        const BlockRef block = geometry.At(place);
        EXPECT_EQ(block.parity, position < parity);
        EXPECT_EQ(geometry.PlaceOf(block), place);
        at.insert(block.member);
        seen.insert(block);
      }
      EXPECT_EQ(at.size(), members) << "a stripe has each member once";
    }
    EXPECT_EQ(seen.size(), members * members);
    for (const BlockRef& block : seen) {
      EXPECT_LT(block.offset, (block.parity ? parity : geometry.data()) * geometry.segment_bytes());
    }
  }
}

TEST(Geometry, ExtraBytesAreThoseOfTheSchemeToTheBlock) {
  constexpr uint64_t kLongest = (uint64_t{1} << 30) + 12345;
  for (const auto& [members, parity] : {std::pair{2u, 1u}, {4u, 1u}, {8u, 1u}, {8u, 2u}, {6u, 3u}}) {
    const Geometry geometry(members, parity, kLongest);
    const uint64_t exact = (kLongest * parity + members - parity - 1) / (members - parity);
    EXPECT_GE(geometry.parity_bytes(), exact);
    EXPECT_LE(geometry.parity_bytes(), exact + parity * uint64_t{geometry.block_bytes()});
    EXPECT_EQ(geometry.parity_bytes() % geometry.block_bytes(), 0u);
  }
  EXPECT_EQ(Geometry(4, 1, 0).parity_bytes(), 0u);
  EXPECT_EQ(Geometry(4, 1, 1).parity_bytes(), kBlockBytesMin);
}

TEST(Geometry, BlocksGrowWithImagesAndNeverShrink) {
  EXPECT_EQ(BlockBytesFor(0), kBlockBytesMin);
  EXPECT_EQ(BlockBytesFor(64u << 20), 256u << 10);
  EXPECT_EQ(BlockBytesFor(uint64_t{1} << 28), kBlockBytesMax);
  EXPECT_EQ(BlockBytesFor(uint64_t{1} << 40), kBlockBytesMax);
  uint32_t last = 0;
  for (uint64_t bytes = 1; bytes < (uint64_t{1} << 32); bytes = bytes * 5 / 4 + 1) {
    EXPECT_GE(BlockBytesFor(bytes), last);
    last = BlockBytesFor(bytes);
  }
}

}  // namespace
}  // namespace kedge::redundancy
