// How much smaller blocks become, and how fast they do and come back: by what they hold, compressor, filter and size of block.
//
//   cmake --build build --target compression_benchmark && build/test/compression_benchmark --benchmark_repetitions=5
//     --benchmark_report_aggregates_only=true
//
// bytes_per_second counts the bytes of the blocks, processor time of one thread; `ratio` is theirs to the stored ones'. The
// fields are what a stencil has after some steps: smooth, with noise in the last bits. `Trial` is what a piece pays before.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "format/block_map.h"
#include "reduce/codec_trial.h"
#include "reduce/stored_block.h"

namespace kedge::reduce {
namespace {

constexpr size_t kBytes = size_t{16} << 20;

template <typename Number>
Buffer FieldOf(double noise) {
  Random random(1);
  Buffer bytes(kBytes);
  constexpr size_t kRow = 1024;
  for (size_t i = 0; i < kBytes / sizeof(Number); ++i) {
    const double x = 1e-2 * static_cast<double>(i % kRow), y = 1e-2 * static_cast<double>(i / kRow);
    const auto number = static_cast<Number>(300 + 50 * std::sin(x) * std::cos(y) + noise * random.Unit());
    std::memcpy(&bytes[i * sizeof(Number)], &number, sizeof(Number));
  }
  return bytes;
}

Buffer Noise() {
  Buffer bytes(kBytes);
  Random(2).Fill(bytes.data(), kBytes);
  return bytes;
}

struct Content {
  std::string name;
  Buffer bytes;
  uint8_t element_bytes;
};

const std::vector<Content>& Contents() {
  static const std::vector<Content> contents = {{"float64", FieldOf<double>(1e-6), 8}, {"float32", FieldOf<float>(1e-3), 4},
                                                {"int64", FieldOf<int64_t>(10), 8},    {"int32", FieldOf<int32_t>(10), 4},
                                                {"zeros", Buffer(kBytes), 8},          {"random", Noise(), 8}};
  return contents;
}

// The blocks of the content one behind the other; their bytes.
size_t StoreAll(const Content& content, const CodecSettings& settings, size_t block_bytes, Buffer* out,
                std::vector<size_t>* sizes) {
  sizes->clear();
  size_t stored = 0;
  for (size_t at = 0; at < kBytes; at += block_bytes) {
    const ByteSpan block = ByteSpan(content.bytes).subspan(at, block_bytes);
    const auto done = StoreBlock(block, settings, std::span(*out).subspan(stored));
    if (!done.ok()) std::abort();
    sizes->push_back(*done);
    stored += *done;
  }
  return stored;
}

void Compress(benchmark::State& state, const Content& content, CodecSettings settings, size_t block_bytes) {
  Buffer out(kBytes + kBytes / block_bytes * kStoredBlockOverheadBytes);
  std::vector<size_t> sizes;
  size_t stored = 0;
  for (auto _ : state) stored = StoreAll(content, settings, block_bytes, &out, &sizes);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kBytes));
  state.counters["ratio"] = static_cast<double>(kBytes) / static_cast<double>(stored);
}

void Decompress(benchmark::State& state, const Content& content, CodecSettings settings, size_t block_bytes) {
  Buffer out(kBytes + kBytes / block_bytes * kStoredBlockOverheadBytes), block(block_bytes);
  std::vector<size_t> sizes;
  StoreAll(content, settings, block_bytes, &out, &sizes);
  for (auto _ : state) {
    size_t at = 0;
    for (const size_t bytes : sizes) {
      if (!LoadBlock(ByteSpan(out).subspan(at, bytes), block).ok()) std::abort();
      at += bytes;
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kBytes));
}

// Bytes are those of a piece of 8 MiB, for which one trial is made.
void Trial(benchmark::State& state, const Content& content) {
  constexpr size_t kPiece = size_t{8} << 20;
  const ByteSpan bytes = content.bytes;
  double saved = 0;
  for (auto _ : state) {
    saved = TryCodecs({bytes, bytes.subspan(kPiece / 4), bytes.subspan(kPiece / 2), bytes.subspan(3 * kPiece / 4)})
                .value()
                .saved_fraction;
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kPiece));
  state.counters["saved"] = saved;
}

void RegisterAll() {
  constexpr const char* kFilterNames[] = {"plain", "shuffle", "bitshuffle"};
  for (const Content& content : Contents()) {
    benchmark::RegisterBenchmark(("Trial/" + content.name).c_str(), Trial, content);
    for (const Compressor compressor : {Compressor::kLz4, Compressor::kZstd}) {
      const std::string with = compressor == Compressor::kLz4 ? "lz4" : "zstd";
      for (const Filter filter : {Filter::kNone, Filter::kShuffle, Filter::kBitShuffle}) {
        for (const size_t block_bytes : {size_t{64} << 10, size_t{256} << 10, size_t{1} << 20}) {
          const CodecSettings settings{compressor, filter, content.element_bytes};
          const std::string name = content.name + '/' + with + '/' + kFilterNames[static_cast<int>(filter)] + '/' +
                                   std::to_string(block_bytes >> 10) + "KiB";
          benchmark::RegisterBenchmark(("Compress/" + name).c_str(), Compress, content, settings, block_bytes);
          benchmark::RegisterBenchmark(("Decompress/" + name).c_str(), Decompress, content, settings, block_bytes);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kedge::reduce

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  kedge::reduce::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
