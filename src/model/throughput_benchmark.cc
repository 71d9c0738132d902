// How long MODEL(S, writers + 1) of [VeloC] takes: it is asked once for each tier and chunk, and must cost well under 1 us.
//
//   cmake --build build --target throughput_benchmark && build/test/throughput_benchmark
#include <benchmark/benchmark.h>

#include <cstdint>

#include "model/learned_curve.h"
#include "model/throughput_curve.h"

namespace kedge {
namespace {

// Numbers of writers in no order that a processor could foresee.
uint32_t NextWriters(uint32_t* state) {
  *state = *state * 1664525 + 1013904223;
  return 1 + (*state >> 24);
}

void Predict(benchmark::State& state) {
  std::vector<ThroughputSample> samples;
  for (uint32_t writers = 1; writers <= 181; writers += 10) samples.push_back({writers, 7e8 - 1e6 * writers});
  const auto curve = ThroughputCurve::Fit(samples);
  uint32_t random = 1;
  for (auto _ : state) benchmark::DoNotOptimize(curve->PerWriter(NextWriters(&random)));
}
BENCHMARK(Predict);

void Learn(benchmark::State& state) {
  LearnedCurve learned;
  uint32_t random = 1;
  for (auto _ : state) learned.Add(NextWriters(&random), 64 << 20, 0.1);
  benchmark::DoNotOptimize(learned.observations());
}
BENCHMARK(Learn);

}  // namespace
}  // namespace kedge

BENCHMARK_MAIN();
