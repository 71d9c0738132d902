// How fast a copy with its checksum is, next to memcpy alone and to a copy followed by a separate checksum.
//
//   cmake --build build --target crc32c_benchmark && build/test/crc32c_benchmark
//
// Memory that is mapped shared and faulted in, as the pool is; processor time, so that a busy machine disturbs little.
// Look at bytes_per_second relative to Memcpy of the same size.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/staged_copy.h"

namespace kedge {
namespace {

class Buffers {
 public:
  explicit Buffers(size_t bytes) : bytes_(bytes), source_(Map(bytes, MAP_PRIVATE)), target_(Map(bytes, MAP_SHARED)) {
    Random(1).Fill(source_, bytes);
    std::memset(target_, 1, bytes);
  }
  ~Buffers() {
    munmap(source_, bytes_);
    munmap(target_, bytes_);
  }
  size_t bytes() const { return bytes_; }
  void* source() const { return source_; }
  void* target() const { return target_; }

 private:
  static void* Map(size_t bytes, int sharing) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    return memory;
  }
  const size_t bytes_;
  void* const source_;
  void* const target_;
};

template <typename Copy>
void Run(benchmark::State& state, Copy copy) {
  const Buffers buffers(static_cast<size_t>(state.range(0)) << 10);
  for (auto _ : state) {
    benchmark::DoNotOptimize(copy(buffers.target(), buffers.source(), buffers.bytes()));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(buffers.bytes()));
}

void Memcpy(benchmark::State& state) {
  Run(state, [](void* to, const void* from, size_t bytes) { return std::memcpy(to, from, bytes); });
}
void CopyWithChecksum(benchmark::State& state) {
  Run(state, [](void* to, const void* from, size_t bytes) { return crc32c::CopyAndChecksum(to, from, bytes); });
}
void CopyByLanes(benchmark::State& state) {
  Run(state, [](void* to, const void* from, size_t bytes) { return crc32c::CopyInOneWay(false, to, from, bytes, 0); });
}
void CopyStaged(benchmark::State& state) {
  Run(state, [](void* to, const void* from, size_t bytes) { return crc32c::CopyInOneWay(true, to, from, bytes, 0); });
}
void CopyThenChecksum(benchmark::State& state) {
  Run(state, [](void* to, const void* from, size_t bytes) {
    std::memcpy(to, from, bytes);
    return crc32c::ChecksumOnly(to, bytes);
  });
}
void ChecksumAlone(benchmark::State& state) {
  Run(state, [](void*, const void* from, size_t bytes) { return crc32c::ChecksumOnly(from, bytes); });
}

constexpr int64_t kKibibytes[] = {1, 64, 256, 1024, 8 << 10, 64 << 10, 512 << 10};
void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t kibibytes : kKibibytes) benchmark->Arg(kibibytes);
}
BENCHMARK(Memcpy)->Apply(Sizes);
BENCHMARK(CopyWithChecksum)->Apply(Sizes);
BENCHMARK(CopyByLanes)->Arg(8 << 10)->Arg(64 << 10)->Arg(512 << 10);
BENCHMARK(CopyStaged)->Arg(8 << 10)->Arg(64 << 10)->Arg(512 << 10);
BENCHMARK(CopyThenChecksum)->Apply(Sizes);
BENCHMARK(ChecksumAlone)->Apply(Sizes);

}  // namespace
}  // namespace kedge

BENCHMARK_MAIN();
