// aggregation-bench: a study of file aggregation on paper ([Agg], [Agg-poster]), and what its plan costs. Needs no MPI.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "base/json.h"
#include "striped/plan_cost.h"
#include "striped/study.h"

namespace kedge::bench {
namespace {

Json StudyJson(const Study& study, const StudyResult& result) {
  const auto bytes = static_cast<double>(result.bytes);
  return {{"strategy", StrategyNames()[static_cast<size_t>(study.strategy)]},
          {"ranks", uint64_t{study.nodes} * study.ranks_per_node},
          {"nodes", study.nodes},
          {"bytes", result.bytes},
          {"local_seconds", result.local_seconds},
          {"flush_seconds", result.flush_seconds},
          {"scan_seconds", result.scan_seconds},
          {"local_bytes_per_second", bytes / result.local_seconds},
          {"flush_bytes_per_second", bytes / result.flush_seconds},
          {"files", result.files},
          {"leaders", result.leaders},
          {"moved_bytes", result.moved_bytes},
          {"hand_overs", result.hand_overs}};
}

Json CostJson(const PlanCost& cost) {
  return {{"nodes", cost.nodes},
          {"leaders", cost.leaders},
          {"steps", cost.steps},
          {"message_bytes_max", cost.message_bytes_max},
          {"message_bytes_bound", cost.message_bytes_bound},
          {"agent_bytes", cost.agent_bytes},
          {"agent_seconds", cost.agent_seconds}};
}

void Print(const std::vector<Json>& rows, bool as_json) {
  if (as_json) {
    std::puts(ToText(Json(rows), 1).c_str());
    return;
  }
  for (const Json& row : rows) {
    std::string line;
    for (const auto& [key, value] : row.items()) line += fmt::format("{}{}={}", line.empty() ? "" : " ", key, ToText(value));
    std::puts(line.c_str());
  }
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Runs checkpoints of a weak-scaling study on paper: nodes, a network and a striped file system with locks. With --cost: "
      "what "
      "the plan of leaders costs one agent, measured here.");
  app.name("aggregation-bench");
  std::vector<std::string> strategies = StrategyNames();
  std::vector<uint32_t> nodes{64};
  Study study;
  bool as_json = false, costs = false;
  app.add_option("--strategy", strategies, "file, posix, mpi-io, generic-io, leaders")->capture_default_str();
  app.add_option("--nodes", nodes, "numbers of nodes")->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--ranks-per-node", study.ranks_per_node)->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--bytes-per-rank", study.bytes_per_rank)->check(CLI::Range(1.0, 1e12))->capture_default_str();
  app.add_option("--size-spread", study.size_spread, "ranks' bytes differ by up to this part")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--leaders", study.asked.leaders, "0: as the targets ask for")->capture_default_str();
  app.add_option("--objects", study.asked.objects, "0: as the targets ask for")->capture_default_str();
  app.add_option("--seed", study.seed, "of sizes, readiness and service times")->capture_default_str();
  app.add_flag("--cost", costs, "instead: time, messages and memory of the plan");
  app.add_flag("--json", as_json, "one array of objects");
  if (int code = 0; !ParseArguments(app, argc, argv, &code)) return code;
  std::vector<Json> rows;
  for (const std::string& name : strategies) {
    const auto strategy = StrategyOf(name);
    if (!strategy) {
      std::fprintf(stderr, "aggregation-bench: --strategy %s: there are %s\n", name.c_str(),
                   fmt::format("{}", fmt::join(StrategyNames(), ", ")).c_str());
      return 2;
    }
    for (const uint32_t count : nodes) {
      study.strategy = *strategy;
      study.nodes = count;
      const auto counts = CountsOf(study);
      if (!counts.ok()) {
        std::fprintf(stderr, "aggregation-bench: --nodes %u: %s\n", count, counts.status().message().c_str());
        return 2;
      }
      if (!costs) {
        rows.push_back(StudyJson(study, RunStudy(study)));
      } else if (study.strategy == Strategy::kLeaders) {
        rows.push_back(CostJson(MeasurePlan(study)));
      }
    }
  }
  Print(rows, as_json);
  return 0;
}

}  // namespace
}  // namespace kedge::bench

int main(int argc, char** argv) {
  return kedge::bench::Main(argc, argv);
}
