#include "placement_bench.h"

#include <fmt/format.h>

#include <cstdio>

#include "arguments.h"
#include "base/json_writer.h"
#include "modelled/model_accuracy.h"
#include "modelled/runner.h"
#include "modelled/wall_clock_run.h"
#include "placement/policy.h"

namespace kedge::bench {
namespace {

std::string Json(const PlacementResult& result) {
  JsonWriter json(2);
  json.BeginObject();
  json.Field("policy", result.policy);
  json.Field("local_seconds", result.local_seconds);
  json.Field("flush_seconds", result.flush_seconds);
  json.Field("bound_seconds", result.bound_seconds);
  json.Key("chunks").BeginObject();
  for (const auto& [tier, chunks] : result.chunks) json.Field(tier, chunks);
  json.EndObject();
  json.Field("waits", result.waits);
  json.Field("wait_seconds", result.wait_seconds);
  json.Field("model_error_mean", result.model_error_mean);
  json.EndObject();
  return json.text();
}

int PrintModel(const Scenario& scenario, const std::string& tier) {
  const auto accuracy = JudgeModel(scenario, tier);
  if (!accuracy.ok()) {
    std::fprintf(stderr, "kedge-bench placement: --model: %s\n", accuracy.status().message().c_str());
    return 1;
  }
  JsonWriter json(0);
  json.BeginObject().Field("tier", tier).Field("samples", accuracy->samples);
  json.Key("rows").BeginArray();
  for (const ModelAccuracy::Row& row : accuracy->rows) {
    json.BeginObject().Field("writers", row.writers).Field("predicted", row.predicted).Field("actual", row.actual).EndObject();
  }
  json.EndArray().Field("error_mean", accuracy->error_mean).EndObject();
  std::printf("%s\n", json.text().c_str());
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
  std::printf("%s\n", Json(RunScenario(*scenario, policy)).c_str());
  return 0;
}

}  // namespace kedge::bench
