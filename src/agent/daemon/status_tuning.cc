#include "agent/daemon/status_tuning.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/daemon/agent.h"
#include "agent/schedule/tuning.h"

namespace kedge {
namespace {

// One level of the runtime, as it was measured.
struct LevelView {
  const char* name;
  ObservedSeconds reached;  // from the start of the call
  ObservedSeconds restarts;
  uint64_t failures;
};

std::vector<LevelView> Levels(const JobMeasurement& measured) {
  // What happens in the background is timed from the end of the call.
  auto with_call = [&](ObservedSeconds background) {
    background.sum += measured.blocked.MeanOr(0) * static_cast<double>(background.count);
    return background;
  };
  return {{LevelName(Level::kLocal), measured.blocked, measured.restart_local, measured.failures_local},
          {LevelName(Level::kNode), with_call(measured.protection), measured.restart_node, measured.failures_node},
          {LevelName(Level::kStore), with_call(measured.background), measured.restart_store, measured.failures_store}};
}

double EffectiveIntervalSeconds(const Job& job) {
  const Duration told = Tuning::ToldInterval(job);
  return ToSeconds(told > Duration::zero() ? told : job.hello.keys.schedule_interval);
}

Json SumJson(const ObservedSeconds& observed) {
  return {{"sum", observed.sum}, {"count", observed.count}};
}

Json ScheduleJson(Agent& agent, const Job& job) {
  const JobKeys& keys = job.hello.keys;
  const LevelCounts levels = Tuning::LevelsInForce(job), configured = ConfiguredLevels(keys);
  Json json{{"interval_seconds", EffectiveIntervalSeconds(job)},
            {"configured_interval_seconds", ToSeconds(keys.schedule_interval)},
            {"node_every", levels.node_every},
            {"store_every", levels.store_every},
            {"configured_node_every", configured.node_every},
            {"configured_store_every", configured.store_every},
            {"adapt", keys.schedule_adapt},
            {"adapt_levels", keys.schedule_adapt_levels},
            {"decides", agent.tuning().Decides(job)},
            {"proposal", nullptr}};
  if (const auto& advice = job.tuning.advice) {
    json["proposal"] = {{"interval_seconds", advice->interval_seconds},           {"efficiency", advice->efficiency},
                        {"best_interval_seconds", advice->best_interval_seconds}, {"best_node_every", advice->best_node_every},
                        {"best_store_every", advice->best_store_every},           {"best_efficiency", advice->best_efficiency}};
  }
  if (!job.tuning.no_advice.ok()) json["no_proposal"] = job.tuning.no_advice.message();
  return json;
}

// A job name may hold any byte but NUL; Prometheus escapes three of them.
std::string LabelValue(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') {
      escaped += '\\';
      escaped += c;
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      escaped += ' ';
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// The lines of all jobs under one name stand together, as the format asks.
class Family {
 public:
  Family(const char* name, const char* type, const char* help)
      : name_(name), text_(fmt::format("# HELP kedge_{0} {1}.\n# TYPE kedge_{0} {2}\n", name, help, type)) {}

  void Add(const std::string& labels, double value, const char* suffix = "") {
    text_ += fmt::format("kedge_{}{}{{{}}} {}\n", name_, suffix, labels, value);
  }
  void Add(const std::string& labels, const ObservedSeconds& observed) {
    Add(labels, observed.sum, "_sum");
    Add(labels, static_cast<double>(observed.count), "_count");
  }
  const std::string& text() const { return text_; }

 private:
  const char* name_;
  std::string text_;
};

}  // namespace

Json TuningJson(Agent& agent, const Job& job) {
  const JobMeasurement measured = agent.tuning().Measured(job);
  Json levels;
  for (const LevelView& level : Levels(measured)) {
    levels[level.name] = {
        {"reached", SumJson(level.reached)}, {"restarts", SumJson(level.restarts)}, {"failures", level.failures}};
  }
  return {{"observed_seconds", measured.observed_seconds},
          {"blocked", SumJson(measured.blocked)},
          {"levels", std::move(levels)},
          {"schedule", ScheduleJson(agent, job)}};
}

std::string TuningMetrics(Agent& agent) {
  Family blocked("checkpoint_blocked_seconds", "summary", "Time that checkpoint calls blocked the application");
  Family reached("level_seconds", "summary", "Time from the checkpoint call until the level was reached");
  Family restarts("restart_seconds", "summary", "Restarts, by the lowest level that sufficed");
  Family failures("failures_total", "counter", "Attempts that died, by the level that the restart needed");
  Family observed("job_seconds", "counter", "How long the job has been observed, its attempts together");
  Family interval("checkpoint_interval_seconds", "gauge", "What kedge_checkpoint_due goes by; 0: always due");
  Family node_every("schedule_node_every", "gauge", "Every so many versions are protected across nodes; 0: none");
  Family store_every("schedule_store_every", "gauge", "Every so many versions go to the store; 0: none");
  Family proposed("proposed_interval_seconds", "gauge",
                  "The best interval for what was measured and the present schedule of levels");
  Family proposed_node("proposed_node_every", "gauge", "The best schedule_node_every for what was measured");
  Family proposed_store("proposed_store_every", "gauge", "The best schedule_store_every for what was measured");
  for (const auto& [key, job] : agent.core().jobs()) {
    const JobMeasurement measured = agent.tuning().Measured(*job);
    const std::string labels = fmt::format("job=\"{}\",store_id=\"{}\"", LabelValue(job->name), job->store_id.ToHex());
    blocked.Add(labels, measured.blocked);
    for (const LevelView& level : Levels(measured)) {
      const std::string with_level = fmt::format("{},level=\"{}\"", labels, level.name);
      reached.Add(with_level, level.reached);
      restarts.Add(with_level, level.restarts);
      failures.Add(with_level, static_cast<double>(level.failures));
    }
    observed.Add(labels, measured.observed_seconds);
    interval.Add(labels, EffectiveIntervalSeconds(*job));
    const LevelCounts levels = Tuning::LevelsInForce(*job);
    node_every.Add(labels, levels.node_every);
    store_every.Add(labels, levels.store_every);
    if (!job->tuning.advice) continue;
    proposed.Add(labels, job->tuning.advice->interval_seconds);
    proposed_node.Add(labels, job->tuning.advice->best_node_every);
    proposed_store.Add(labels, job->tuning.advice->best_store_every);
  }
  std::string text;
  for (const Family* family : {&blocked, &reached, &restarts, &failures, &observed, &interval, &node_every, &store_every,
                               &proposed, &proposed_node, &proposed_store})
    text += family->text();
  return text;
}

}  // namespace kedge
