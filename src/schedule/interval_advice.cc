#include "schedule/interval_advice.h"

#include <algorithm>
#include <vector>

#include "model/interval_optimum.h"

namespace kedge {
namespace {

// No period longer than this is advised.
constexpr double kWorkSeconds = 30 * 86400.0;
// A capture of nothing still costs something: keeps the best interval away from zero.
constexpr double kBlockedSecondsMin = 1e-6;

IntervalSystem SystemOf(const JobMeasurement& measured, const IntervalRule& rule) {
  const double blocked = std::max(measured.blocked.MeanOr(0), kBlockedSecondsMin);
  const double background = std::max(0.0, measured.background.MeanOr(0));
  const double observed = measured.observed_seconds;
  IntervalSystem system;
  system.work_seconds = kWorkSeconds;
  IntervalLevel local;
  local.overhead_seconds = local.latency_seconds = blocked;
  local.restart_seconds = measured.restart_local.MeanOr(blocked);
  local.failure_rate_per_second = UpdatedFailureRate(rule.mtbf_local_seconds, measured.failures_local, observed);
  IntervalLevel store;
  store.overhead_seconds = blocked;
  store.latency_seconds = blocked + background;
  store.restart_seconds = measured.restart_store.MeanOr(blocked + background);
  store.failure_rate_per_second = UpdatedFailureRate(rule.mtbf_store_seconds, measured.failures_store, observed);
  store.asynchronous = background > 0;
  system.levels = {local};
  if (rule.store_every > 0) system.levels.push_back(store);
  return system;
}

}  // namespace

double UpdatedFailureRate(double mtbf_seconds, uint64_t failures, double observed_seconds) {
  return (kAssumedFailures + static_cast<double>(failures)) / (kAssumedFailures * mtbf_seconds + observed_seconds);
}

Result<IntervalAdvice> AdviseInterval(const JobMeasurement& measured, const IntervalRule& rule) {
  if (measured.blocked.count == 0) return Status(Code::kFailedPrecondition, "no checkpoint was measured yet");
  if (rule.store_every > 0 && measured.background.count == 0) {
    return Status(Code::kFailedPrecondition, "no checkpoint that went to the store was measured yet");
  }
  const IntervalSystem system = SystemOf(measured, rule);
  std::vector<int> counts;
  if (rule.store_every > 0) counts.push_back(static_cast<int>(rule.store_every) - 1);
  KEDGE_ASSIGN_OR_RETURN(const IntervalOptimum kept, BestInterval(system, counts));
  KEDGE_ASSIGN_OR_RETURN(const IntervalOptimum best, BestSchedule(system));
  if (kept.efficiency <= 0 || best.efficiency <= 0) {
    return Status(Code::kFailedPrecondition, "no schedule makes progress with what was measured");
  }
  IntervalAdvice advice;
  advice.interval_seconds = kept.schedule.interval_seconds;
  advice.efficiency = kept.efficiency;
  advice.best_interval_seconds = best.schedule.interval_seconds;
  advice.best_store_every = best.schedule.counts.empty() ? 0 : static_cast<uint32_t>(best.schedule.counts[0]) + 1;
  advice.best_efficiency = best.efficiency;
  return advice;
}

}  // namespace kedge
