// The cutting of images into chunks and extents: the stated rules, on hand-made and on random region sizes.
#include "capture/chunking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"

namespace kedge {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<uint64_t> Plan(const LayoutLimits& limits, const std::vector<uint64_t>& regions) {
  std::vector<uint64_t> chunks{99};
  PlanChunks(limits, regions, &chunks);
  return chunks;
}

TEST(Layout, EmptyRegionsNeedNoChunk) {
  EXPECT_THAT(Plan({64, 8}, {}), IsEmpty());
  EXPECT_THAT(Plan({64, 8}, {0, 0}), IsEmpty());
}

TEST(Layout, SmallRegionsArePackedAcrossTheChunkBoundary) {
  EXPECT_THAT(Plan({64, 8}, {1, 0, 7, 7}), ElementsAre(15));
  EXPECT_THAT(Plan({16, 8}, {7, 7, 7}), ElementsAre(16, 5));
}

TEST(Layout, ARegionOfAPieceStartsAChunk) {
  EXPECT_THAT(Plan({64, 8}, {3, 8, 2}), ElementsAre(3, 10));
  EXPECT_THAT(Plan({64, 8}, {3, 130, 2}), ElementsAre(3, 64, 64, 4));
}

TEST(Layout, ExtentsEndAtPieces) {
  const LayoutLimits limits{64, 8};
  EXPECT_EQ(ExtentBytes(limits, 0, 100), 8u);
  EXPECT_EQ(ExtentBytes(limits, 5, 100), 3u);
  EXPECT_EQ(ExtentBytes(limits, 8, 2), 2u);
}

TEST(Layout, ExtentsOfLargerImagesEndAtBlocks) {
  EXPECT_EQ(ExtentCutBytes(0), 0u);
  EXPECT_EQ(ExtentCutBytes((16u << 20) - 1), 0u) << "blocks below 64 KiB";
  EXPECT_EQ(ExtentCutBytes(16u << 20), 64u << 10);
  EXPECT_EQ(ExtentCutBytes(uint64_t{64} << 30), 1u << 20);
  EXPECT_EQ(ExtentCutBytes(uint64_t{65} << 30), 0u) << "too many";
}

// The properties that readers rely on, for random sizes around the limits.
TEST(Layout, HoldsItsRulesForRandomRegions) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    const LayoutLimits limits{32 + random.Below(100), 1 + random.Below(32)};
    std::vector<uint64_t> regions(random.Below(20));
    for (uint64_t& region : regions) region = random.Below(3 * limits.chunk_bytes);
    const std::vector<uint64_t> chunks = Plan(limits, regions);
    EXPECT_EQ(std::accumulate(chunks.begin(), chunks.end(), uint64_t{0}),
              std::accumulate(regions.begin(), regions.end(), uint64_t{0}));
    std::vector<uint64_t> starts{0};
    for (uint64_t chunk : chunks) {
      EXPECT_GT(chunk, 0u);
      EXPECT_LE(chunk, limits.chunk_bytes);
      starts.push_back(starts.back() + chunk);
    }
    uint64_t position = 0;
    for (uint64_t region : regions) {
      if (region >= limits.piece_bytes) {
        EXPECT_THAT(starts, ::testing::Contains(position));
      }
      position += region;
    }
  }
}

}  // namespace
}  // namespace kedge
