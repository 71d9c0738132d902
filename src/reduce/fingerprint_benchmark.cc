// What fingerprints cost in a pass that copies and sums: with and without, by size of block.
//
//   cmake --build build --target fingerprint_benchmark && build/test/fingerprint_benchmark --benchmark_repetitions=9
//     --benchmark_enable_random_interleaving=true --benchmark_report_aggregates_only=true
//
// Memory that is mapped shared and faulted in, as the pool is; processor time. A piece is copied block by block, so that each
// block is in the cache when its fingerprint is taken. Compare the medians of bytes_per_second.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/crc32c.h"
#include "base/random.h"
#include "reduce/fingerprint.h"

namespace kedge::reduce {
namespace {

constexpr size_t kBytes = size_t{64} << 20;

std::byte* Map(int sharing) {
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(memory);
}

std::byte* Source() {
  static std::byte* const memory = [] {
    std::byte* filled = Map(MAP_PRIVATE);
    Random(1).Fill(filled, kBytes);
    return filled;
  }();
  return memory;
}

std::byte* Target() {
  static std::byte* const memory = [] {
    std::byte* touched = Map(MAP_SHARED);
    std::memset(touched, 1, kBytes);
    return touched;
  }();
  return memory;
}

template <typename Function>
void Run(benchmark::State& state, Function of_block) {
  const size_t block = static_cast<size_t>(state.range(0)) << 10;
  std::byte* const source = Source();
  std::byte* const target = Target();
  for (auto _ : state) {
    for (size_t at = 0; at < kBytes; at += block) of_block(target + at, source + at, block);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kBytes));
}

void CopyAndSum(benchmark::State& state) {
  Run(state, [](std::byte* to, const std::byte* from, size_t bytes) {
    benchmark::DoNotOptimize(crc32c::CopyAndChecksum(to, from, bytes, 0, kBytes));
  });
}

void CopySumAndFingerprint(benchmark::State& state) {
  Run(state, [](std::byte* to, const std::byte* from, size_t bytes) {
    benchmark::DoNotOptimize(crc32c::CopyAndChecksum(to, from, bytes, 0, kBytes));
    benchmark::DoNotOptimize(FingerprintOf(ByteSpan(from, bytes)));
  });
}

// As the flush does where the store has its bytes from memory: nothing is copied here.
void SumAndFingerprint(benchmark::State& state) {
  Run(state, [](std::byte*, const std::byte* from, size_t bytes) {
    benchmark::DoNotOptimize(crc32c::ChecksumOnly(from, bytes));
    benchmark::DoNotOptimize(FingerprintOf(ByteSpan(from, bytes)));
  });
}

void Sum(benchmark::State& state) {
  Run(state,
      [](std::byte*, const std::byte* from, size_t bytes) { benchmark::DoNotOptimize(crc32c::ChecksumOnly(from, bytes)); });
}

BENCHMARK(CopyAndSum)->Arg(16)->Arg(32)->Arg(64);
BENCHMARK(CopySumAndFingerprint)->Arg(16)->Arg(32)->Arg(64);
BENCHMARK(Sum)->Arg(64);
BENCHMARK(SumAndFingerprint)->Arg(16)->Arg(32)->Arg(64);

}  // namespace
}  // namespace kedge::reduce

BENCHMARK_MAIN();
