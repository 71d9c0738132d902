// The meter of flushes: all together is not the average times their number now, and a stall is seen while it lasts.
#include "model/flush_meter.h"

#include <gtest/gtest.h>

#include "model/predicted_service.h"

namespace kedge {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(FlushMeter, CountsEachFlushWithThoseBesideIt) {
  FlushMeter meter;
  EXPECT_EQ(meter.total(0), 0);
  // A device of 100 bytes a second: one flush alone, then four at a time.
  meter.End(meter.Begin(100, 0, 0), true, kSecond);
  EXPECT_DOUBLE_EQ(meter.average(), 100);
  uint64_t flushes[4];
  for (uint64_t& flush : flushes) flush = meter.Begin(100, 0, kSecond);
  EXPECT_DOUBLE_EQ(meter.total(kSecond), 100) << "not 400, although four are under way";
  for (uint64_t flush : flushes) meter.End(flush, true, 5 * kSecond);
  EXPECT_NEAR(meter.total(5 * kSecond), 100, 1);
  EXPECT_NEAR(meter.average(), 500 / 17.0, 0.1);
}

TEST(FlushMeter, AStallLowersTheTotalWhileItLasts) {
  FlushMeter meter;
  meter.End(meter.Begin(100, 0, 0), true, kSecond);
  meter.Begin(100, 7, kSecond);
  EXPECT_DOUBLE_EQ(meter.total(2 * kSecond), 100) << "it may end any moment";
  EXPECT_DOUBLE_EQ(meter.total(11 * kSecond), 10);
  EXPECT_DOUBLE_EQ(meter.SecondsToNextEndOf(7, kSecond + kSecond / 4), 0.75);
  EXPECT_DOUBLE_EQ(meter.SecondsToNextEndOf(7, 11 * kSecond), 9) << "as long again as it is late";
  EXPECT_EQ(meter.SecondsToNextEndOf(3, 11 * kSecond), 0) << "none from there";
  EXPECT_EQ(meter.InFlightOf(7), 1u);
  EXPECT_EQ(meter.InFlightOf(3), 0u);
}

// Four ended together, each at a quarter of what the store does: eight get an eighth each.
TEST(FlushMeter, MoreOfThemThanThereWereAreExpectedToShareWhatAllGot) {
  FlushMeter meter;
  std::vector<uint64_t> flushes;
  for (int i = 0; i < 4; ++i) flushes.push_back(meter.Begin(100, 1, 0));
  for (const uint64_t flush : flushes) meter.End(flush, true, kSecond);
  ASSERT_DOUBLE_EQ(meter.average(), 100);
  for (int i = 0; i < 8; ++i) meter.Begin(100, 1, kSecond);
  EXPECT_DOUBLE_EQ(meter.SecondsToNextEndOf(1, kSecond), 2);
  EXPECT_DOUBLE_EQ(meter.total(3 * kSecond), 400) << "after two seconds none of them is late";
  EXPECT_LT(meter.total(5 * kSecond), 400);
  FlushMeter fewer = meter;
  fewer.Begin(100, 2, kSecond);
  EXPECT_DOUBLE_EQ(fewer.SecondsToNextEndOf(2, kSecond), 2.25);
}

TEST(FlushMeter, WhatFailedTeachesNothing) {
  FlushMeter meter(50);
  meter.End(meter.Begin(100, 0, 0), false, kSecond);
  EXPECT_EQ(meter.average(), 50) << "the prior";
  meter.End(99, true, kSecond);
  EXPECT_EQ(meter.in_flight(), 0u);
}

TEST(PredictedService, IsTheIntegralOverTheWritersThatThereWere) {
  const auto curve = ThroughputCurve::Fit({{1, 100}, {2, 120}});
  ASSERT_TRUE(curve.ok());
  PredictedService service;
  service.Advance(&*curve, 0, kSecond);
  service.Advance(&*curve, 1, 3 * kSecond);
  service.Advance(&*curve, 2, 4 * kSecond);
  EXPECT_DOUBLE_EQ(service.bytes(), 2 * 100 + 60);
  service.Advance(nullptr, 2, 9 * kSecond);
  EXPECT_DOUBLE_EQ(service.bytes(), 260) << "nothing is predicted without a curve";
}

}  // namespace
}  // namespace kedge
