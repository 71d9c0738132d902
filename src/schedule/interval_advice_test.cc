// The advice follows what was measured: the textbook interval where it applies, and the right direction everywhere.
#include "schedule/interval_advice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace kedge {
namespace {

using Json = nlohmann::json;

constexpr double kDay = 86400;
constexpr double kNodeMtbf = 5 * kDay;

ObservedSeconds ObservedOf(const Json& entry) {
  return {entry.at("sum"), entry.at("count")};
}

JobMeasurement MeasurementOf(const Json& entry) {
  JobMeasurement measured;
  measured.blocked = ObservedOf(entry.at("blocked"));
  measured.protection = ObservedOf(entry.at("protection"));
  measured.background = ObservedOf(entry.at("background"));
  measured.restart_local = ObservedOf(entry.at("restart_local"));
  measured.restart_node = ObservedOf(entry.at("restart_node"));
  measured.restart_store = ObservedOf(entry.at("restart_store"));
  measured.failures_local = entry.at("failures_local");
  measured.failures_node = entry.at("failures_node");
  measured.failures_store = entry.at("failures_store");
  measured.observed_seconds = entry.at("observed_seconds");
  return measured;
}

IntervalRule RuleOf(const Json& entry) {
  return {entry.at("node_every"), entry.at("store_every"), entry.at("mtbf_local_seconds"), entry.at("mtbf_node_seconds"),
          entry.at("mtbf_store_seconds")};
}

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

TEST(AdviseInterval, AgreesWithKedgePlanWatchWithinTwoPercent) {
  std::ifstream file(std::string(KEDGE_VECTORS) + "/interval_advice.json");
  const Json document = Json::parse(file);
  int compared = 0, with_node = 0;
  for (const Json& entry : document.at("vectors")) {
    const IntervalRule rule = RuleOf(entry.at("rule"));
    const Result<IntervalAdvice> advice = AdviseInterval(MeasurementOf(entry), rule);
    ASSERT_TRUE(advice.ok()) << advice.status().ToString();
    const Json& kept = entry.at("kept");
    const Json& best = entry.at("best");
    const double interval = kept.at("interval_seconds"), best_interval = best.at("interval_seconds");
    EXPECT_NEAR(advice->interval_seconds, interval, 0.02 * interval) << entry;
    EXPECT_NEAR(advice->efficiency, kept.at("efficiency"), 1e-6) << entry;
    EXPECT_NEAR(advice->best_interval_seconds, best_interval, 0.02 * best_interval) << entry;
    EXPECT_NEAR(advice->best_efficiency, best.at("efficiency"), 1e-6) << entry;
    uint32_t every = 1;
    const auto counts = best.at("counts").get<std::vector<uint32_t>>();
    for (size_t i = 0; i < counts.size(); ++i) {
      every *= counts[i] + 1;
      if (rule.node_every > 0 && i == 0) {
        EXPECT_EQ(advice->best_node_every, every) << entry;
      }
    }
    EXPECT_EQ(advice->best_store_every, rule.store_every > 0 ? every : 0) << entry;
    ++compared;
    if (rule.node_every > 0) ++with_node;
  }
  EXPECT_GE(compared, 30);
  EXPECT_GE(with_node, 20);
}

TEST(AdviseInterval, NodesThatProtectEachOtherAnswerTheirFailures) {
  // Copies on other nodes take five seconds, the store an hour: with both, far fewer versions need go to the store.
  JobMeasurement measured = Measured(1, 3600);
  measured.failures_node = 100;
  measured.observed_seconds = 200 * kDay;
  const IntervalRule alone{0, 1, kDay, 2 * kDay, 30 * kDay};
  const IntervalAdvice before = AdviseInterval(measured, alone).value();
  EXPECT_EQ(before.best_node_every, 0u);
  const IntervalRule both{1, 20, kDay, 2 * kDay, 30 * kDay};
  EXPECT_NE(AdviseInterval(measured, both).status().message().find("protected across nodes"), std::string::npos);
  measured.protection.Add(50, 10);
  const IntervalAdvice after = AdviseInterval(measured, both).value();
  EXPECT_GT(after.efficiency, before.best_efficiency + 0.005);
  EXPECT_EQ(after.best_node_every, 1u);
  EXPECT_GT(after.best_store_every, before.best_store_every);
  // More often to the store than to other nodes: those are of no use.
  const IntervalAdvice rarely = AdviseInterval(measured, {4, 1, kDay, 2 * kDay, 30 * kDay}).value();
  EXPECT_DOUBLE_EQ(rarely.interval_seconds, before.interval_seconds);
}

TEST(AdviseInterval, WithoutTheStoreItIsTheTextbookInterval) {
  // One synchronous level: near sqrt(2 O M) where O is small beside M.
  const Result<IntervalAdvice> advice = AdviseInterval(Measured(2, 0), {0, 0, kDay, kNodeMtbf, 10 * kDay});
  ASSERT_TRUE(advice.ok()) << advice.status().ToString();
  EXPECT_NEAR(advice->interval_seconds, std::sqrt(2 * 2 * kDay), 0.02 * std::sqrt(2 * 2 * kDay));
  EXPECT_EQ(advice->best_store_every, 0u);
}

TEST(AdviseInterval, ObservedFailuresShortenIt) {
  JobMeasurement measured = Measured(2, 30);
  const IntervalRule rule{0, 1, kDay, kNodeMtbf, 10 * kDay};
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
  const IntervalAdvice advice = AdviseInterval(Measured(1, 3600), {0, 1, 3600, kNodeMtbf, 10 * kDay}).value();
  EXPECT_GE(advice.interval_seconds, 3600);
  // Fewer to the store, then: that is the best, and it is better.
  EXPECT_GT(advice.best_store_every, 1u);
  EXPECT_LT(advice.best_interval_seconds, 1000);
  EXPECT_GT(advice.best_efficiency, advice.efficiency);
  const IntervalAdvice fewer =
      AdviseInterval(Measured(1, 3600), {0, advice.best_store_every, 3600, kNodeMtbf, 10 * kDay}).value();
  EXPECT_NEAR(fewer.efficiency, advice.best_efficiency, 1e-4);
}

// A job that may change its counts does so where the model sees something in it, and then has no reason to change again.
TEST(AdviseInterval, CountsChangeWhereThatIsWorthIt) {
  IntervalRule rule{0, 1, 3600, kNodeMtbf, 10 * kDay};
  const IntervalAdvice advice = AdviseInterval(Measured(1, 3600), rule).value();
  EXPECT_EQ(advice.present, (LevelCounts{0, 1}));
  const LevelCounts better = WorthwhileLevels(advice);
  EXPECT_EQ(better, (LevelCounts{0, advice.best_store_every}));
  rule.store_every = better.store_every;
  EXPECT_EQ(WorthwhileLevels(AdviseInterval(Measured(1, 3600), rule).value()), better);
  IntervalAdvice little = advice;
  little.best_efficiency = little.efficiency + 0.9 * kWorthwhileGain;
  EXPECT_EQ(WorthwhileLevels(little), little.present);
  // A level that is off stays off, one that the model left out (more to the store than to the nodes) stays as it is.
  little.best_efficiency = little.efficiency + 0.1;
  little.best_store_every = 7;
  for (const LevelCounts& present : {LevelCounts{0, 3}, LevelCounts{5, 3}}) {
    little.present = present;
    EXPECT_EQ(WorthwhileLevels(little), (LevelCounts{present.node_every, 7}));
  }
}

TEST(AdviseInterval, CheaperCheckpointsComeMoreOften) {
  double last = 0;
  for (const double blocked : {0.0, 1e-3, 0.1, 10.0}) {
    const IntervalAdvice advice = AdviseInterval(Measured(blocked, 0), {0, 1, kDay, kNodeMtbf, 10 * kDay}).value();
    EXPECT_GT(advice.interval_seconds, last);
    EXPECT_LE(advice.efficiency, 1);
    last = advice.interval_seconds;
  }
}

TEST(AdviseInterval, SaysWhatIsMissing) {
  JobMeasurement measured;
  const IntervalRule rule{0, 1, kDay, kDay, kDay};
  EXPECT_EQ(AdviseInterval(measured, rule).status().code(), Code::kFailedPrecondition);
  measured.blocked.Add(1);
  EXPECT_NE(AdviseInterval(measured, rule).status().message().find("to the store"), std::string::npos);
  EXPECT_TRUE(AdviseInterval(measured, {0, 0, kDay, kDay, kDay}).ok());
}

}  // namespace
}  // namespace kedge
