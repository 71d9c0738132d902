#include "levels_model.h"

#include <gtest/gtest.h>

namespace kedge::bench {
namespace {

constexpr NodeBandwidths kBandwidths{.memory = 8, .network = 2, .encode = 4};

// By hand, for 16 bytes a node: 2 s to copy, 8 s to read them once, 4 s to encode them once.
TEST(LevelsModel, IsTheSumOfItsParts) {
  EXPECT_DOUBLE_EQ(ProtectModelSeconds(Scheme::kXor, 1, 16, kBandwidths), 2 + 8 + 4);
  EXPECT_DOUBLE_EQ(ProtectModelSeconds(Scheme::kReedSolomon, 2, 16, kBandwidths), 2 + 16 + 8);
  EXPECT_DOUBLE_EQ(ProtectModelSeconds(Scheme::kPartner, 1, 16, kBandwidths), 2 + 8);
  EXPECT_DOUBLE_EQ(ProtectModelSeconds(Scheme::kPartner, 2, 16, kBandwidths), 2 + 16);
}

TEST(LevelsModel, ARestartGathersTheLostImageToo) {
  EXPECT_DOUBLE_EQ(RestartModelSeconds(Scheme::kXor, 1, 16, kBandwidths), 14 + 8);
  EXPECT_DOUBLE_EQ(RestartModelSeconds(Scheme::kReedSolomon, 2, 16, kBandwidths), 26 + 8);
  EXPECT_DOUBLE_EQ(RestartModelSeconds(Scheme::kPartner, 2, 16, kBandwidths), 2 + 8);
}

}  // namespace
}  // namespace kedge::bench
