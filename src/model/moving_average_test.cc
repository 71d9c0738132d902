// AvgFlushBW: defined from the start, over a window, weighted by time, and sensible after a pause.
#include "model/moving_average.h"

#include <gtest/gtest.h>

namespace kedge {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

TEST(MovingAverage, IsThePriorUntilTheFirstFlushEnds) {
  EXPECT_EQ(MovingAverage().bytes_per_second(), 0);
  MovingAverage average(250);
  EXPECT_EQ(average.bytes_per_second(), 250);
  average.Add(1000, 0, kSecondNs);
  EXPECT_DOUBLE_EQ(average.bytes_per_second(), 1000);
}

TEST(MovingAverage, WeighsByTime) {
  MovingAverage average;
  average.Add(1000, 0, kSecondNs);
  average.Add(1000, 0, 9 * kSecondNs);
  EXPECT_DOUBLE_EQ(average.bytes_per_second(), 200);
}

TEST(MovingAverage, HoldsAWindowOnly) {
  MovingAverage average;
  for (int i = 0; i < 100; ++i) average.Add(1000, 0, kSecondNs);
  EXPECT_EQ(average.count(), MovingAverage::kWindow);
  for (size_t i = 0; i < MovingAverage::kWindow; ++i) average.Add(10000, 0, kSecondNs);
  EXPECT_DOUBLE_EQ(average.bytes_per_second(), 10000);
}

TEST(MovingAverage, APauseKeepsTheValueAndLetsTheNextFlushWeighAsMuch) {
  MovingAverage average;
  for (int i = 0; i < 100; ++i) average.Add(1000, 0, kSecondNs);
  const int64_t later = 3600 * kSecondNs;
  EXPECT_DOUBLE_EQ(average.bytes_per_second(), 1000);
  average.Add(8000, later, later + 2 * kSecondNs);
  EXPECT_EQ(average.count(), 2u);
  EXPECT_DOUBLE_EQ(average.bytes_per_second(), 16000 / 10.0);
}

TEST(MovingAverage, NothingMovedTeachesNothing) {
  MovingAverage average(7);
  average.Add(0, 0, kSecondNs);
  average.Add(1000, kSecondNs, kSecondNs);
  average.Add(1000, kSecondNs, 0);
  EXPECT_EQ(average.bytes_per_second(), 7);
}

}  // namespace
}  // namespace kedge
