#include "schedule/interval_advice.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/interval_optimum.h"
#include "schedule/schedule.h"

namespace kedge {
namespace {

// No period longer than this is advised.
constexpr double kWorkSeconds = 30 * 86400.0;
// A capture of nothing still costs something: keeps the best interval away from zero.
constexpr double kBlockedSecondsMin = 1e-6;

// The model's system, and the job's present schedule in its terms.
struct Modelled {
  IntervalSystem system;
  std::vector<int> counts;
  bool has_node = false;
};

// Background work comes level by level: what took less time than the level below is taken to end with it.
IntervalLevel LevelInBackground(double blocked, double background, double restart, double rate) {
  IntervalLevel level;
  level.overhead_seconds = blocked;
  level.latency_seconds = blocked + background;
  level.restart_seconds = restart;
  level.failure_rate_per_second = rate;
  level.asynchronous = background > 0;
  return level;
}

bool ModelsNode(const IntervalRule& rule) {
  return rule.node_every > 0 && (rule.store_every == 0 || rule.node_every <= rule.store_every);
}

Modelled Model(const JobMeasurement& measured, const IntervalRule& rule) {
  const double blocked = std::max(measured.blocked.MeanOr(0), kBlockedSecondsMin);
  const double observed = measured.observed_seconds;
  Modelled modelled;
  modelled.has_node = ModelsNode(rule);
  modelled.system.work_seconds = kWorkSeconds;
  modelled.system.levels.push_back(
      LevelInBackground(blocked, 0, measured.restart_local.MeanOr(blocked),
                        UpdatedFailureRate(rule.mtbf_local_seconds, measured.failures_local, observed)));
  double background = 0;
  uint64_t failures_store = measured.failures_store;
  if (modelled.has_node) {
    background = std::max(0.0, measured.protection.MeanOr(0));
    modelled.system.levels.push_back(
        LevelInBackground(blocked, background, measured.restart_node.MeanOr(blocked + background),
                          UpdatedFailureRate(rule.mtbf_node_seconds, measured.failures_node, observed)));
    modelled.counts.push_back(static_cast<int>(rule.node_every) - 1);
  } else {
    failures_store += measured.failures_node;
  }
  if (rule.store_every > 0) {
    background = std::max(background, measured.background.MeanOr(0));
    modelled.system.levels.push_back(LevelInBackground(blocked, background, measured.restart_store.MeanOr(blocked + background),
                                                       UpdatedFailureRate(rule.mtbf_store_seconds, failures_store, observed)));
    const uint32_t below = modelled.has_node ? rule.node_every : 1;
    modelled.counts.push_back(static_cast<int>(std::max(1L, std::lround(double{1} * rule.store_every / below))) - 1);
  }
  return modelled;
}

}  // namespace

LevelCounts WorthwhileLevels(const IntervalAdvice& advice) {
  if (advice.best_efficiency - advice.efficiency <= kWorthwhileGain) return advice.present;
  return ChangedLevels(advice.present, {advice.best_node_every, advice.best_store_every});
}

double UpdatedFailureRate(double mtbf_seconds, uint64_t failures, double observed_seconds) {
  return (kAssumedFailures + static_cast<double>(failures)) / (kAssumedFailures * mtbf_seconds + observed_seconds);
}

Result<IntervalAdvice> AdviseInterval(const JobMeasurement& measured, const IntervalRule& rule) {
  if (measured.blocked.count == 0) return Status(Code::kFailedPrecondition, "no checkpoint was measured yet");
  if (rule.store_every > 0 && measured.background.count == 0) {
    return Status(Code::kFailedPrecondition, "no checkpoint that went to the store was measured yet");
  }
  if (ModelsNode(rule) && measured.protection.count == 0) {
    return Status(Code::kFailedPrecondition, "no checkpoint that was protected across nodes was measured yet");
  }
  const Modelled job = Model(measured, rule);
  KEDGE_ASSIGN_OR_RETURN(const IntervalOptimum kept, BestInterval(job.system, job.counts));
  KEDGE_ASSIGN_OR_RETURN(const IntervalOptimum best, BestSchedule(job.system));
  if (kept.efficiency <= 0 || best.efficiency <= 0) {
    return Status(Code::kFailedPrecondition, "no schedule makes progress with what was measured");
  }
  IntervalAdvice advice;
  advice.present = {rule.node_every, rule.store_every};
  advice.interval_seconds = kept.schedule.interval_seconds;
  advice.efficiency = kept.efficiency;
  advice.best_interval_seconds = best.schedule.interval_seconds;
  uint32_t every = 1;
  for (const int count : best.schedule.counts) {
    every *= static_cast<uint32_t>(count) + 1;
    if (job.has_node && advice.best_node_every == 0) advice.best_node_every = every;
  }
  advice.best_store_every = rule.store_every > 0 ? every : 0;
  advice.best_efficiency = best.efficiency;
  return advice;
}

}  // namespace kedge
