#include "placement_bench.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "base/json.h"
#include "modelled/model_accuracy.h"
#include "modelled/runner.h"
#include "modelled/wall_clock_run.h"
#include "placement/policy.h"

namespace kedge::bench {
namespace {

Json ResultJson(const PlacementResult& result) {
  Json chunks;
  for (const auto& [tier, count] : result.chunks) chunks[tier] = count;
  return {{"policy", result.policy},
          {"local_seconds", result.local_seconds},
          {"flush_seconds", result.flush_seconds},
          {"bound_seconds", result.bound_seconds},
          {"chunks", std::move(chunks)},
          {"waits", result.waits},
          {"wait_seconds", result.wait_seconds},
          {"model_error_mean", result.model_error_mean}};
}

int PrintModel(const Scenario& scenario, const std::string& tier) {
  const auto accuracy = JudgeModel(scenario, tier);
  if (!accuracy.ok()) {
    std::fprintf(stderr, "kedge-bench placement: --model: %s\n", accuracy.status().message().c_str());
    return 1;
  }
  Json rows = Json::array();
  for (const ModelAccuracy::Row& row : accuracy->rows) {
    rows.push_back({{"writers", row.writers}, {"predicted", row.predicted}, {"actual", row.actual}});
  }
  const Json json{
      {"tier", tier}, {"samples", accuracy->samples}, {"rows", std::move(rows)}, {"error_mean", accuracy->error_mean}};
  std::puts(ToText(json).c_str());
  return 0;
}

}  // namespace

int RunPlacementBench(int argc, char** argv) {
  CLI::App app("Runs a scenario of writers, tiers and a store on paper under a placement policy, and prints JSON.");
  app.name("kedge-bench placement");
  std::string path, policy = "adaptive", model_tier;
  app.add_option("scenario", path, "the scenario, a TOML file")->required();
  app.add_option("--policy", policy, "adaptive, paper, naive, ssd-only or cache-only")->capture_default_str();
  app.add_option("--model", model_tier, "instead: predicted and actual throughput of that tier by the number of its writers");
  if (int code = 0; !ParseArguments(app, argc, argv, &code)) return code;
  const auto names = PlacementPolicyNames();
  if (std::find(names.begin(), names.end(), policy) == names.end()) {
    std::fprintf(stderr, "kedge-bench placement: --policy %s: there are %s\n", policy.c_str(),
                 fmt::format("{}", fmt::join(names, ", ")).c_str());
    return 1;
  }
  const auto scenario = ReadScenario(path);
  if (!scenario.ok()) {
    std::fprintf(stderr, "kedge-bench placement: %s\n", scenario.status().ToString().c_str());
    return 1;
  }
  if (!model_tier.empty()) return PrintModel(*scenario, model_tier);
  const double threads = double{1} * scenario->nodes * (scenario->writers + scenario->store_workers_max);
  if (scenario->time_scale > 0 && threads > kWallClockThreadsMax) {
    std::fprintf(stderr,
                 "kedge-bench placement: %s: time_scale: %.0f writers and flush workers; against the wall clock %u are allowed\n",
                 path.c_str(), threads, kWallClockThreadsMax);
    return 1;
  }
  std::puts(ToText(ResultJson(RunScenario(*scenario, policy)), 2).c_str());
  return 0;
}

}  // namespace kedge::bench
