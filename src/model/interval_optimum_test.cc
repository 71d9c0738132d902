// The twin agrees with the Python model on the shared vectors, keeps exact limits, and refuses bad input.
#include "model/interval_optimum.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace kedge {
namespace {

using Json = nlohmann::json;

Json Vectors() {
  std::ifstream file(std::string(KEDGE_VECTORS) + "/interval_optimum.json");
  return Json::parse(file).at("vectors");
}

IntervalSystem SystemOf(const Json& entry) {
  IntervalSystem system;
  system.work_seconds = entry.at("work_seconds");
  system.alpha = entry.at("alpha");
  for (const Json& level : entry.at("levels")) {
    system.levels.push_back({level.at("overhead_seconds"), level.at("latency_seconds"), level.at("restart_seconds"),
                             level.at("failure_rate_per_second"), level.at("asynchronous")});
  }
  return system;
}

IntervalSchedule ScheduleOf(const Json& entry) {
  return {entry.at("interval_seconds"), entry.at("counts").get<std::vector<int>>()};
}

IntervalSystem TwoLevels() {
  return {1e6, 0.01, {{20, 20, 15, 1e-4, false}, {25, 2000, 1500, 5e-6, true}}};
}

TEST(IntervalModel, AgreesWithThePythonModelOnEverySchedule) {
  int compared = 0;
  for (const Json& entry : Vectors()) {
    const IntervalSystem system = SystemOf(entry);
    for (const Json& schedule : entry.at("schedules")) {
      const Result<double> period = ExpectedPeriodSeconds(system, ScheduleOf(schedule));
      ASSERT_TRUE(period.ok()) << entry.at("name") << ": " << period.status().ToString();
      const double expected = schedule.at("expected_period_seconds");
      EXPECT_NEAR(*period, expected, 1e-9 * expected) << entry.at("name") << " " << schedule;
      ++compared;
    }
  }
  EXPECT_GE(compared, 150);
}

TEST(IntervalOptimum, AgreesWithThePythonModelWithinTwoPercent) {
  int compared = 0;
  for (const Json& entry : Vectors()) {
    const IntervalSystem system = SystemOf(entry);
    const Result<IntervalOptimum> best = BestSchedule(system);
    ASSERT_TRUE(best.ok()) << best.status().ToString();
    const Json& expected = entry.at("optimum");
    EXPECT_NEAR(best->efficiency, expected.at("efficiency"), 1e-6) << entry.at("name");
    EXPECT_EQ(best->schedule.counts, expected.at("counts").get<std::vector<int>>()) << entry.at("name");
    const double interval = expected.at("interval_seconds");
    EXPECT_NEAR(best->schedule.interval_seconds, interval, 0.02 * interval) << entry.at("name");
    const Result<double> efficiency = IntervalEfficiency(system, best->schedule);
    ASSERT_TRUE(efficiency.ok());
    EXPECT_DOUBLE_EQ(*efficiency, best->efficiency);
    ++compared;
  }
  EXPECT_GE(compared, 50);
}

TEST(IntervalOptimum, ForTheBestCountsTheBestIntervalIsFound) {
  for (const Json& entry : Vectors()) {
    const IntervalSystem system = SystemOf(entry);
    const IntervalOptimum best = BestSchedule(system).value();
    const Result<IntervalOptimum> same = BestInterval(system, best.schedule.counts);
    ASSERT_TRUE(same.ok()) << entry.at("name") << ": " << same.status().ToString();
    EXPECT_NEAR(same->efficiency, best.efficiency, 1e-6) << entry.at("name");
  }
}

TEST(IntervalModel, OneLevelIsTheExactExpectedTime) {
  const double rate = 1e-4;
  const IntervalSystem system{1e6, 0, {{60, 60, 90, rate, false}}};
  const Result<double> period = ExpectedPeriodSeconds(system, {500, {}});
  ASSERT_TRUE(period.ok());
  EXPECT_NEAR(*period, std::exp(rate * 90) * std::expm1(rate * 560) / rate, 1e-7);
}

TEST(IntervalModel, WithoutFailuresOnlyTheCheckpointsCost) {
  IntervalSystem system = TwoLevels();
  system.alpha = 0;
  for (IntervalLevel& level : system.levels) level.failure_rate_per_second = 0;
  const Result<double> efficiency = IntervalEfficiency(system, {1000, {4}});
  ASSERT_TRUE(efficiency.ok());
  EXPECT_DOUBLE_EQ(*efficiency, 5000.0 / (5000 + 4 * 20 + 25));
}

TEST(IntervalModel, HopelessSystemsHaveNoEfficiency) {
  const IntervalSystem system{1e6, 0, {{30, 30, 10, 1, false}, {30, 500, 500, 1, true}}};
  const Result<double> efficiency = IntervalEfficiency(system, {5000, {3}});
  ASSERT_TRUE(efficiency.ok());
  EXPECT_EQ(*efficiency, 0);
  const Result<IntervalOptimum> best = BestSchedule(system);
  ASSERT_TRUE(best.ok());
  EXPECT_LT(best->efficiency, 0.01);
}

TEST(IntervalModel, ACopyThatDoesNotFitIsRefused) {
  const IntervalSystem system = TwoLevels();
  const double shortest = ShortestInterval(system, {3});
  EXPECT_NEAR(shortest, (1975.0 - 3 * 20) / (4 * 1.01), 1e-9);
  EXPECT_TRUE(ExpectedPeriodSeconds(system, {shortest * 1.0001, {3}}).ok());
  EXPECT_EQ(ExpectedPeriodSeconds(system, {shortest * 0.999, {3}}).status().code(), Code::kFailedPrecondition);
}

TEST(IntervalModel, BadInputIsNamed) {
  const IntervalSystem good = TwoLevels();
  IntervalSystem bad = good;
  bad.levels[1].failure_rate_per_second = -1;
  EXPECT_NE(BestSchedule(bad).status().message().find("level 1: failure_rate_per_second is -1"), std::string::npos);
  bad = good;
  bad.levels[0].latency_seconds = 400;
  EXPECT_EQ(CheckIntervalSystem(bad).code(), Code::kInvalidArgument);
  bad = good;
  bad.levels[1].latency_seconds = 3;
  EXPECT_EQ(CheckIntervalSystem(bad).code(), Code::kInvalidArgument);
  bad = good;
  bad.alpha = std::nan("");
  EXPECT_EQ(CheckIntervalSystem(bad).code(), Code::kInvalidArgument);
  bad = good;
  bad.levels.clear();
  EXPECT_EQ(BestSchedule(bad).status().code(), Code::kInvalidArgument);
  bad = good;
  bad.levels[0] = {20, 3000, 15, 1e-4, true};
  EXPECT_EQ(CheckIntervalSystem(bad).code(), Code::kInvalidArgument);
  EXPECT_EQ(ExpectedPeriodSeconds(good, {100, {1, 2}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ExpectedPeriodSeconds(good, {100, {-1}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ExpectedPeriodSeconds(good, {0, {1}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ExpectedPeriodSeconds(good, {1e3, {2'000'000'000}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(BestInterval(good, {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(BestInterval(good, {-1}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kedge
