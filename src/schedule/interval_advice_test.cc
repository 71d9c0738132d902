// The advice follows what was measured: the textbook interval where it applies, and the right direction everywhere.
#include "schedule/interval_advice.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kedge {
namespace {

constexpr double kDay = 86400;

JobMeasurement Measured(double blocked, double background) {
  JobMeasurement measured;
  measured.blocked.Add(10 * blocked, 10);
  measured.background.Add(10 * background, 10);
  return measured;
}

TEST(UpdatedFailureRate, MovesFromTheAssumedToTheObserved) {
  EXPECT_DOUBLE_EQ(UpdatedFailureRate(kDay, 0, 0), 1 / kDay);
  EXPECT_LT(UpdatedFailureRate(kDay, 0, 10 * kDay), 1 / kDay);
  EXPECT_GT(UpdatedFailureRate(kDay, 3, 3600), 1 / kDay);
  EXPECT_NEAR(UpdatedFailureRate(kDay, 1000, 1000 * 3600), 1.0 / 3600, 0.05 / 3600);
}

TEST(AdviseInterval, WithoutTheStoreItIsTheTextbookInterval) {
  // One synchronous level: near sqrt(2 O M) where O is small beside M.
  const Result<IntervalAdvice> advice = AdviseInterval(Measured(2, 0), {0, kDay, 10 * kDay});
  ASSERT_TRUE(advice.ok()) << advice.status().ToString();
  EXPECT_NEAR(advice->interval_seconds, std::sqrt(2 * 2 * kDay), 0.02 * std::sqrt(2 * 2 * kDay));
  EXPECT_EQ(advice->best_store_every, 0u);
}

TEST(AdviseInterval, ObservedFailuresShortenIt) {
  JobMeasurement measured = Measured(2, 30);
  const IntervalRule rule{1, kDay, 10 * kDay};
  const double calm = AdviseInterval(measured, rule).value().interval_seconds;
  measured.observed_seconds = kDay;
  measured.failures_local = 12;
  const IntervalAdvice rough = AdviseInterval(measured, rule).value();
  EXPECT_LT(rough.interval_seconds, 0.6 * calm);
  measured.failures_store = 12;
  EXPECT_LT(AdviseInterval(measured, rule).value().efficiency, rough.efficiency);
}

TEST(AdviseInterval, NoShorterThanTheFlushTakes) {
  // Every version goes to the store, which takes an hour: checkpoints that come sooner would only queue.
  const IntervalAdvice advice = AdviseInterval(Measured(1, 3600), {1, 3600, 10 * kDay}).value();
  EXPECT_GE(advice.interval_seconds, 3600);
  // Fewer to the store, then: that is the best, and it is better.
  EXPECT_GT(advice.best_store_every, 1u);
  EXPECT_LT(advice.best_interval_seconds, 1000);
  EXPECT_GT(advice.best_efficiency, advice.efficiency);
  const IntervalAdvice fewer = AdviseInterval(Measured(1, 3600), {advice.best_store_every, 3600, 10 * kDay}).value();
  EXPECT_NEAR(fewer.efficiency, advice.best_efficiency, 1e-4);
}

TEST(AdviseInterval, CheaperCheckpointsComeMoreOften) {
  double last = 0;
  for (const double blocked : {0.0, 1e-3, 0.1, 10.0}) {
    const IntervalAdvice advice = AdviseInterval(Measured(blocked, 0), {1, kDay, 10 * kDay}).value();
    EXPECT_GT(advice.interval_seconds, last);
    EXPECT_LE(advice.efficiency, 1);
    last = advice.interval_seconds;
  }
}

TEST(AdviseInterval, SaysWhatIsMissing) {
  JobMeasurement measured;
  const IntervalRule rule{1, kDay, kDay};
  EXPECT_EQ(AdviseInterval(measured, rule).status().code(), Code::kFailedPrecondition);
  measured.blocked.Add(1);
  EXPECT_NE(AdviseInterval(measured, rule).status().message().find("to the store"), std::string::npos);
  EXPECT_TRUE(AdviseInterval(measured, {0, kDay, kDay}).ok());
}

}  // namespace
}  // namespace kedge
