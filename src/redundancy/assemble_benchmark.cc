// What the arithmetic of protection costs beside ISA-L alone: block tables, encoding and rebuilding through an Assembler, whose
// blocks come by memcpy in place of a network. Bytes are those of images; a rebuild reads members - 1 times as many.
// Arguments: members, parity, MiB of each image; one thread.
//
//   cmake --build build --target assemble_benchmark && build/test/assemble_benchmark
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "redundancy/assemble.h"
#include "redundancy/block_table.h"

namespace kedge::redundancy {
namespace {

// A set whose images and parity lie in memory; `lost` is not there.
class MemorySet : public BlockSource {
 public:
  MemorySet(uint32_t members, uint32_t parity, uint64_t image_bytes) : images_(members), parity_(members) {
    record_.identity = {{{1, 2}, "job", "name", 1, 1, 1}, members, 1, 0, 0};
    record_.scheme = parity == 1 ? Scheme::kXor : Scheme::kReedSolomon;
    record_.parity = parity;
    Random random(1);
    for (uint32_t i = 0; i < members; ++i) {
      images_[i].resize(image_bytes);
      random.Fill(images_[i].data(), image_bytes);
      record_.members.push_back(
          {"node" + std::to_string(i), "domain", i, TableOf(images_[i], BlockBytesFor(image_bytes)), Buffer(8)});
    }
  }

  static BlockTable TableOf(const Buffer& bytes, uint32_t block_bytes) {
    BlockTableBuilder builder(bytes.size(), block_bytes);
    builder.Add(bytes);
    return builder.Finish();
  }
  const SetRecord& record() const { return record_; }
  const Buffer& image(uint32_t member) const { return images_[member]; }
  Buffer& parity(uint32_t member) { return parity_[member]; }
  void Lose(uint32_t member) { lost_ = member; }

  bool Has(uint32_t member, bool /*parity*/) override { return member != lost_; }
  void ReadBlocks(std::span<Read> reads) override {
    for (Read& read : reads) {
      const Buffer& from = read.block.parity ? parity_[read.block.member] : images_[read.block.member];
      std::memcpy(read.to.data(), from.data() + read.block.offset, read.to.size());
    }
  }

 private:
  SetRecord record_;
  std::vector<Buffer> images_;
  std::vector<Buffer> parity_;
  uint32_t lost_ = ~0u;
};

MemorySet MakeSet(const benchmark::State& state) {
  return {static_cast<uint32_t>(state.range(0)), static_cast<uint32_t>(state.range(1)),
          static_cast<uint64_t>(state.range(2)) << 20};
}

// The parity object of one member; 1 of `members` shares of the set's work.
void EncodeMember(MemorySet& set, const SetArithmetic& arithmetic, const ParityTables& tables, uint32_t member) {
  const Geometry& geometry = arithmetic.geometry();
  Assembler assembler(set.record(), arithmetic, tables, set);
  Buffer& parity = set.parity(member);
  parity.resize(geometry.parity_bytes());
  for (uint64_t offset = 0; offset < parity.size(); offset += geometry.block_bytes()) {
    KEDGE_CHECK(assembler.Assemble({member, true, offset}, {parity.data() + offset, geometry.block_bytes()}).ok());
  }
}

void BM_BlockTable(benchmark::State& state) {
  const MemorySet set = MakeSet(state);
  for (auto _ : state) benchmark::DoNotOptimize(MemorySet::TableOf(set.image(0), BlockBytesFor(set.image(0).size())));
  state.SetBytesProcessed(state.iterations() * state.range(2) << 20);
}

void BM_IsaLAlone(benchmark::State& state) {
  const MemorySet set = MakeSet(state);
  const StripeCode code(static_cast<uint32_t>(state.range(0)), static_cast<uint32_t>(state.range(1)));
  const size_t segment_bytes = set.image(0).size() / code.data();
  std::vector<const std::byte*> sources;
  std::vector<uint8_t> factors;
  for (uint32_t c = 0; c < code.data(); ++c) {
    sources.push_back(set.image(0).data() + c * segment_bytes);
    factors.push_back(code.Coefficient(code.parity() - 1, c));
  }
  Buffer sum(segment_bytes);
  for (auto _ : state) LinearSum(factors, sources, sum.data(), segment_bytes);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(segment_bytes * code.data()));
}

void BM_Encode(benchmark::State& state) {
  MemorySet set = MakeSet(state);
  const SetArithmetic arithmetic = *SetArithmetic::Make(set.record());
  const ParityTables none(set.record().members.size());
  EncodeMember(set, arithmetic, none, 0);  // faults its memory in
  for (auto _ : state) EncodeMember(set, arithmetic, none, 0);
  state.SetBytesProcessed(state.iterations() * state.range(2) << 20);
}

void BM_Rebuild(benchmark::State& state) {
  MemorySet set = MakeSet(state);
  const SetArithmetic arithmetic = *SetArithmetic::Make(set.record());
  ParityTables tables(set.record().members.size());
  for (uint32_t m = 0; m < tables.size(); ++m) EncodeMember(set, arithmetic, ParityTables(tables.size()), m);
  const uint32_t block_bytes = arithmetic.geometry().block_bytes();
  for (uint32_t m = 0; m < tables.size(); ++m) tables[m] = MemorySet::TableOf(set.parity(m), block_bytes);
  set.Lose(0);
  Assembler assembler(set.record(), arithmetic, tables, set);
  Buffer image(set.image(0).size());
  for (auto _ : state) {
    for (uint64_t offset = 0; offset < image.size(); offset += block_bytes) {
      const uint64_t bytes = std::min<uint64_t>(block_bytes, image.size() - offset);
      KEDGE_CHECK(assembler.Assemble({0, false, offset}, {image.data() + offset, bytes}).ok());
    }
  }
  KEDGE_CHECK(image == set.image(0));
  state.SetBytesProcessed(state.iterations() * state.range(2) << 20);
}

void Sets(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({4, 1, 64})->Args({8, 1, 64})->Args({8, 2, 64})->Args({8, 2, 1});
}
BENCHMARK(BM_BlockTable)->Args({2, 1, 64});
BENCHMARK(BM_IsaLAlone)->Apply(Sets);
BENCHMARK(BM_Encode)->Apply(Sets);
BENCHMARK(BM_Rebuild)->Apply(Sets);

}  // namespace
}  // namespace kedge::redundancy

BENCHMARK_MAIN();
