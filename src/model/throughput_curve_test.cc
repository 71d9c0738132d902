// The curve goes through its samples, agrees with an independent implementation between them, and stays sane outside.
#include "model/throughput_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"

namespace kedge {
namespace {

ThroughputCurve Curve(std::vector<ThroughputSample> samples) {
  auto curve = ThroughputCurve::Fit(std::move(samples));
  EXPECT_TRUE(curve.ok()) << curve.status().ToString();
  return std::move(curve).value();
}

// The totals of a device that is slow alone, best at 16 writers, and drowns in many, as in figure 5 of [VeloC].
double Actual(double writers) {
  return 690e6 * std::min(1.0, std::pow(writers / 16, 0.6)) / (1 + std::pow(std::max(0.0, writers - 16) / 90, 1.3));
}

TEST(ThroughputCurve, OneSampleIsAFlatTotal) {
  const ThroughputCurve curve = Curve({{4, 100}});
  EXPECT_EQ(curve.Total(0), 0);
  EXPECT_EQ(curve.PerWriter(0), 0);
  EXPECT_DOUBLE_EQ(curve.Total(1), 25) << "each writer's share is that of the first sample";
  EXPECT_DOUBLE_EQ(curve.Total(4), 100);
  EXPECT_DOUBLE_EQ(curve.Total(4000000000u), 100);
  EXPECT_DOUBLE_EQ(curve.PerWriter(8), 12.5);
}

TEST(ThroughputCurve, TwoSamplesAreALine) {
  const ThroughputCurve curve = Curve({{1, 10}, {11, 30}});
  for (uint32_t writers = 1; writers <= 11; ++writers) EXPECT_NEAR(curve.Total(writers), 8 + 2.0 * writers, 1e-9);
  EXPECT_DOUBLE_EQ(curve.Total(12), 30);
}

// Values of scipy.interpolate.make_interp_spline(x, y, k=3, bc_type="natural").
TEST(ThroughputCurve, AgreesWithScipy) {
  const ThroughputCurve curve = Curve({{1, 120}, {10, 520}, {20, 680}, {30, 600}, {40, 500}, {60, 380}, {90, 300}, {128, 260}});
  EXPECT_NEAR(curve.Total(2), 170.032342233, 1e-6);
  EXPECT_NEAR(curve.Total(5), 315.938445590, 1e-6);
  EXPECT_NEAR(curve.Total(15), 640.659624040, 1e-6);
  EXPECT_NEAR(curve.Total(19), 678.014591354, 1e-6);
  EXPECT_NEAR(curve.Total(25), 655.169015470, 1e-6);
  EXPECT_NEAR(curve.Total(45), 461.321915553, 1e-6);
  EXPECT_NEAR(curve.Total(59), 384.203891826, 1e-6);
  EXPECT_NEAR(curve.Total(75), 330.490814529, 1e-6);
  EXPECT_NEAR(curve.Total(100), 285.946636936, 1e-6);
  EXPECT_NEAR(curve.Total(127), 260.777224154, 1e-6);
}

TEST(ThroughputCurve, GoesThroughItsSamplesAndIsNeverNegative) {
  Random random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<ThroughputSample> samples;
    uint32_t writers = 0;
    for (uint64_t i = 0, count = 1 + random.Below(24); i < count; ++i) {
      writers += 1 + static_cast<uint32_t>(random.Below(40));
      samples.push_back({writers, std::pow(10, 6 * random.Unit())});
    }
    const ThroughputCurve curve = Curve(samples);
    double highest = 0;
    for (const ThroughputSample& sample : samples) {
      ASSERT_DOUBLE_EQ(curve.Total(sample.writers), sample.bytes_per_second);
      highest = std::max(highest, sample.bytes_per_second);
    }
    for (uint32_t at = 1; at < writers + 10; ++at) {
      ASSERT_GT(curve.Total(at), 0);
      ASSERT_LE(curve.Total(at), 2 * highest);
    }
    ASSERT_DOUBLE_EQ(curve.Total(writers + 1000), samples.back().bytes_per_second);
    for (uint32_t at = 1; at < writers; ++at) ASSERT_LE(0.989 * curve.Total(at), curve.Total(curve.best_writers()));
  }
}

// [VeloC] figure 3: samples at 1 and at steps of 10 predict every concurrency from 1 to 180.
TEST(ThroughputCurve, TenTimesFewerSamplesPredictWithinFivePercent) {
  std::vector<ThroughputSample> samples = {{1, Actual(1)}};
  for (uint32_t writers = 10; writers <= 180; writers += 10) samples.push_back({writers, Actual(writers)});
  const ThroughputCurve curve = Curve(samples);
  double sum = 0;
  for (uint32_t writers = 1; writers <= 180; ++writers) sum += std::abs(curve.Total(writers) / Actual(writers) - 1);
  EXPECT_LT(sum / 180, 0.02);
}

TEST(ThroughputCurve, BestWritersIsTheLeastThatReachesThePeak) {
  EXPECT_EQ(Curve({{1, 10}, {2, 30}, {3, 20}}).best_writers(), 2u);
  EXPECT_EQ(Curve({{1, 10}, {2, 10}, {3, 10}}).best_writers(), 1u);
  EXPECT_EQ(Curve({{1, 10}, {2, 30}, {3, 29.5}, {4, 20}}).most_writers(), 3u);
  EXPECT_EQ(Curve({{1, 10}, {2, 10}, {3, 10}}).most_writers(), UINT32_MAX) << "flat: any number";
}

TEST(ThroughputCurve, BadSamplesAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<ThroughputSample>> bad = {
      {}, {{0, 1}}, {{1, 0}}, {{1, -1}}, {{1, nan}}, {{1, infinity}}, {{2, 1}, {2, 1}}, {{2, 1}, {1, 1}}, {{4097, 1}}};
  for (const auto& samples : bad) EXPECT_EQ(ThroughputCurve::Fit(samples).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kedge
