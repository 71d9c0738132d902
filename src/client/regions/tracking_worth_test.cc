// When tracking goes off and comes back.
#include "client/regions/tracking_worth.h"

#include <gtest/gtest.h>

namespace kedge::client {
namespace {

constexpr uint64_t kJudgedBytes = uint64_t{1} << 30;
constexpr double kScanSeconds = 1.5e-3;

bool Observe(TrackingWorth& worth, double dirty) {
  return worth.Observe(kJudgedBytes, static_cast<uint64_t>(dirty * static_cast<double>(kJudgedBytes)), kScanSeconds);
}

int PauseImages(TrackingWorth& worth) {
  int images = 0;
  while (worth.Pauses()) ++images;
  return images;
}

TEST(TrackingWorth, StaysWhileFewPagesAreWritten) {
  TrackingWorth worth;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(Observe(worth, i % 2 == 0 ? 0.01 : 0.2));
    EXPECT_FALSE(worth.Pauses());
  }
}

TEST(TrackingWorth, GoesOffAfterAFewLossesInARowOnly) {
  TrackingWorth worth;
  for (int round = 0; round < 10; ++round) {
    EXPECT_TRUE(Observe(worth, 0.5));
    EXPECT_TRUE(Observe(worth, 0.5));
    EXPECT_TRUE(Observe(worth, 0.01)) << "a gain between";
  }
  EXPECT_TRUE(Observe(worth, 0.5));
  EXPECT_TRUE(Observe(worth, 0.5));
  EXPECT_FALSE(Observe(worth, 0.5));
}

TEST(TrackingWorth, PausesDoubleUpToALimitAndAreForgottenAfterGains) {
  TrackingWorth worth;
  const auto lose = [&] {
    while (Observe(worth, 0.9)) {
    }
    return PauseImages(worth);
  };
  EXPECT_EQ(lose(), 8);
  EXPECT_EQ(lose(), 16);
  for (int i = 0; i < 10; ++i) (void)lose();
  EXPECT_EQ(lose(), 256);
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(Observe(worth, 0));
  EXPECT_EQ(lose(), 256);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(Observe(worth, 0));
  EXPECT_EQ(lose(), 8);
}

// A scan that takes as long as the copy saves nothing.
TEST(TrackingWorth, ASlowScanCounts) {
  TrackingWorth worth;
  EXPECT_TRUE(worth.Observe(kJudgedBytes, 0, 1));
  EXPECT_TRUE(worth.Observe(kJudgedBytes, 0, 1));
  EXPECT_FALSE(worth.Observe(kJudgedBytes, 0, 1));
}

}  // namespace
}  // namespace kedge::client
