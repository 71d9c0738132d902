// Learning a device from what single writers saw: it comes near the device, follows its changes, and keeps its head.
#include "model/learned_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"

namespace kedge {
namespace {

// The shape of [VeloC] figure 5: slow for few writers, best at 16, falling after.
double DeviceTotal(double writers) {
  return writers <= 16 ? 100e6 + 590e6 * (writers - 1) / 15 : 690e6 * std::exp(-(writers - 16) / 100);
}

TEST(LearnedCurve, KnowsNothingBeforeItHasSeenAFewChunks) {
  LearnedCurve learned;
  EXPECT_FALSE(learned.Curve().has_value());
  for (uint32_t i = 1; i < LearnedCurve::kTrusted; ++i) learned.Add(4, 64 << 20, 1);
  EXPECT_FALSE(learned.Curve().has_value());
  learned.Add(4, 64 << 20, 1);
  ASSERT_TRUE(learned.Curve().has_value());
  EXPECT_NEAR(learned.Curve()->PerWriter(4), 64 << 20, 1);
}

TEST(LearnedCurve, ComesNearTheDeviceWhereItWasUsed) {
  LearnedCurve learned;
  Random random(5);
  for (int i = 0; i < 4000; ++i) {
    const double writers = 1 + 63 * random.Unit();
    const double noise = 1 + 0.2 * (random.Unit() - 0.5);
    learned.Add(writers, 64 << 20, (64 << 20) * writers / (DeviceTotal(writers) * noise));
  }
  const auto curve = learned.Curve();
  ASSERT_TRUE(curve.has_value());
  double error = 0;
  for (uint32_t writers = 2; writers <= 63; ++writers) error += std::abs(curve->Total(writers) / DeviceTotal(writers) - 1) / 62;
  EXPECT_LT(error, 0.08);
}

TEST(LearnedCurve, FollowsADeviceThatBecomesSlower) {
  LearnedCurve learned;
  for (int i = 0; i < 1000; ++i) learned.Add(8, 64 << 20, 1);
  for (int i = 0; i < 150; ++i) learned.Add(8, 64 << 20, 10);
  EXPECT_NEAR(learned.Curve()->PerWriter(8), 6.4 * (1 << 20), 0.7 * (1 << 20));
}

TEST(LearnedCurve, ComesBackFromItsGroups) {
  LearnedCurve learned, again;
  for (int i = 0; i < 20; ++i) {
    for (const double writers : {1.0, 3.0, 12.0, 100.0}) learned.Add(writers, 1 << 20, 0.01 * (1 + 0.1 * (i % 3)));
  }
  ASSERT_EQ(learned.Groups().size(), 4u);
  for (const auto& group : learned.Groups()) again.Restore(group);
  EXPECT_EQ(again.observations(), 0u);
  for (uint32_t writers = 1; writers <= 128; ++writers) {
    EXPECT_DOUBLE_EQ(again.Curve()->Total(writers), learned.Curve()->Total(writers));
  }
}

TEST(LearnedCurve, PassesOverWhatIsNoMeasurement) {
  LearnedCurve learned;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int i = 0; i < 10; ++i) {
    learned.Add(nan, 1, 1);
    learned.Add(1, 0, 1);
    learned.Add(1, 1, 0);
    learned.Add(1, 1, -1);
    learned.Add(1, 1, nan);
    learned.Add(-1, 1, 1);
    learned.Add(std::numeric_limits<double>::infinity(), 1, 1);
  }
  learned.Restore({});
  EXPECT_EQ(learned.observations(), 0u);
  EXPECT_FALSE(learned.Curve().has_value());
}

TEST(LearnedCurve, GroupsAreNearTheirWriters) {
  for (uint32_t writers = 1; writers <= ThroughputCurve::kWritersMax; ++writers) {
    const double ratio = static_cast<double>(LearnedCurve::GroupOf(writers)) / writers;
    ASSERT_GT(ratio, 0.7) << writers;
    ASSERT_LT(ratio, 1.3) << writers;
  }
  for (const uint32_t writers : {1u, 2u, 3u, 4u, 6u, 8u, 12u, 16u, 24u, 4096u})
    EXPECT_EQ(LearnedCurve::GroupOf(writers), writers);
}

}  // namespace
}  // namespace kedge
