// What a call of kedge_checkpoint_due and kedge_should_exit costs when nothing is due, with an agent attached: the target is
// at most a microsecond. Not part of the tests; build and run it by name:
//
//   cmake --build build --target calls_benchmark kedge-agent && build/test/calls_benchmark
#include <benchmark/benchmark.h>

#include <string>

#include "kedge/kedge.h"
#include "tests/support/scenario_folder.h"
#include "tests/support/virtual_nodes.h"

namespace kedge::testing {
namespace {

template <int (*kQuestion)(kedge_context*, int*)>
void BM_Ask(benchmark::State& state) {
  const ScenarioFolder folder;
  const std::string overrides = "store.path=" + folder.store() + "\nnode.run_folder=" + folder.run_folder() +
                                "\npool.size=64MiB\nschedule.interval=1h\nagent.idle_timeout=1s\njob.name=asking";
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = overrides.c_str();
  kedge_context* context = nullptr;
  if (kedge_init(&options, nullptr, &context) != KEDGE_OK) return state.SkipWithError(kedge_error_message());
  int answer = 0;
  for (auto _ : state) {
    if (kQuestion(context, &answer) != KEDGE_OK || answer != 0) state.SkipWithError("it was told yes, or an error");
  }
  kedge_finalize(context, 0);
}
BENCHMARK_TEMPLATE(BM_Ask, kedge_checkpoint_due);
BENCHMARK_TEMPLATE(BM_Ask, kedge_should_exit);

// Rank 0's calls; rank 1 is on another node, and asks as often.
template <int (*kQuestion)(kedge_context*, int*)>
void BM_AskOverTwoNodes(benchmark::State& state) {
  VirtualNodes(2).Run({0, 1}, "schedule.interval=1h\n", [&](kedge_context* context, int rank) {
    int answer = 0;
    if (rank != 0) {
      for (benchmark::IterationCount i = 0; i < state.max_iterations; ++i) kQuestion(context, &answer);
      return;
    }
    for (auto _ : state) {
      if (kQuestion(context, &answer) != KEDGE_OK || answer != 0) state.SkipWithError("it was told yes, or an error");
    }
  });
}
BENCHMARK_TEMPLATE(BM_AskOverTwoNodes, kedge_checkpoint_due);
BENCHMARK_TEMPLATE(BM_AskOverTwoNodes, kedge_should_exit);

}  // namespace
}  // namespace kedge::testing

BENCHMARK_MAIN();
