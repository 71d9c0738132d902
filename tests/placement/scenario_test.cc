// The targets of placement, in virtual time: the paper's scenarios, scenarios that nobody has seen, the bound, the clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "modelled/parts.h"
#include "modelled/runner.h"
#include "placement/policy.h"
#include "random_scenario.h"
#include "varied_scenario.h"

namespace kedge::bench {
namespace {

Scenario Parse(const std::string& text) {
  auto scenario = ParseScenario(text, "scenario");
  EXPECT_TRUE(scenario.ok()) << scenario.status().ToString() << "\n" << text;
  return std::move(scenario).value();
}

std::map<std::string, Scenario> PaperScenarios() {
  std::map<std::string, Scenario> scenarios;
  for (const auto& entry : std::filesystem::directory_iterator(KEDGE_SCENARIOS)) {
    if (entry.path().extension() != ".toml") continue;
    auto scenario = ReadScenario(entry.path());
    EXPECT_TRUE(scenario.ok()) << scenario.status().ToString();
    scenarios.emplace(entry.path().stem(), std::move(scenario).value());
  }
  return scenarios;
}

uint64_t ChunksOf(const PlacementResult& result) {
  uint64_t sum = 0;
  for (const auto& [tier, chunks] : result.chunks) sum += chunks;
  return sum;
}

constexpr const char* kSmall = R"(
chunk_mib = 64
writers = 20
chunks_per_writer = 3
noise = 0.1
[[tier]]
name = "cache"
capacity_chunks = 8
curve = [[1, 8000]]
[[tier]]
name = "ssd"
capacity_chunks = 100
curve = [[1, 100], [8, 600], [20, 300]]
[store]
curve = [[1, 400], [4, 1000]]
workers_max = 4
share = [[0.5, 0.1], [1.5, 1]]
)";

TEST(PaperScenarios, AdaptiveKeepsItsTargets) {
  const auto scenarios = PaperScenarios();
  ASSERT_GE(scenarios.size(), 27u);
  for (const auto& [name, scenario] : scenarios) {
    SCOPED_TRACE(name);
    const PlacementResult adaptive = RunScenario(scenario, "adaptive");
    const PlacementResult paper = RunScenario(scenario, "paper");
    const PlacementResult naive = RunScenario(scenario, "naive");
    const PlacementResult cache_only = RunScenario(scenario, "cache-only");
    EXPECT_EQ(ChunksOf(adaptive), uint64_t{scenario.nodes} * scenario.writers * scenario.chunks_per_writer);
    EXPECT_LE(adaptive.local_seconds, 1.5 * adaptive.bound_seconds);
    EXPECT_LE(adaptive.local_seconds, 1.02 * paper.local_seconds);
    EXPECT_LE(adaptive.local_seconds, 1.03 * naive.local_seconds);
    EXPECT_LE(adaptive.flush_seconds, 1.1 * cache_only.flush_seconds);
    EXPECT_LE(adaptive.model_error_mean, 0.05);
    if (name.starts_with("figure-4")) {
      EXPECT_LE(1.4 * adaptive.local_seconds, naive.local_seconds);
      EXPECT_LE(2 * adaptive.flush_seconds, naive.flush_seconds);
    }
    // The bound leaves no policy more than 8% to 21% with 1 to 4 writers.
    if (name == "figure-5-001" || name == "figure-5-002" || name == "figure-5-004") {
      EXPECT_LE(adaptive.local_seconds, 1.06 * adaptive.bound_seconds);
    } else if (name.starts_with("figure-5")) {
      EXPECT_LE(1.25 * adaptive.local_seconds, naive.local_seconds);
    }
    if (name.starts_with("figure-6a")) {
      EXPECT_LE(1.25 * adaptive.local_seconds, naive.local_seconds);
    }
    if (name.starts_with("figure-6b")) {
      EXPECT_LE(2 * adaptive.local_seconds, naive.local_seconds);
    }
  }
}

// What one chunk takes on the slowest tier, where it is at its best.
double ServiceSeconds(const Scenario& scenario) {
  double seconds = 0;
  for (const ScenarioTier& tier : scenario.tiers) {
    const uint32_t writers = std::min(scenario.writers, tier.curve.best_writers());
    seconds = std::max(seconds, static_cast<double>(scenario.chunk_bytes) / tier.curve.PerWriter(writers));
  }
  return seconds;
}

// Local phases of adaptive and of what it is compared with.
struct Compared {
  explicit Compared(const Scenario& scenario)
      : adaptive(RunScenario(scenario, "adaptive").local_seconds),
        paper(RunScenario(scenario, "paper").local_seconds),
        best(paper) {
    for (auto policy : {"naive", "ssd-only"}) best = std::min(best, RunScenario(scenario, policy).local_seconds);
    service = ServiceSeconds(scenario);
  }
  bool KeepsToBest() const { return adaptive <= std::max(1.03 * best, best + service); }
  bool KeepsToPaper() const { return adaptive <= 1.02 * paper; }

  double adaptive, paper, best, service = 0;
};

// Noise takes from one policy what it gives to another: there one chunk's time is nobody's merit.
TEST(VariedScenarios, AdaptiveIsNeverSlowerThanTheOthers) {
  const auto scenarios = VariedScenarios();
  ASSERT_GE(scenarios.size(), 300u);
  for (const auto& [name, text] : scenarios) {
    SCOPED_TRACE(name);
    const Scenario scenario = Parse(text);
    const Compared compared(scenario);
    EXPECT_TRUE(compared.KeepsToBest()) << compared.adaptive << " s, best other " << compared.best;
    EXPECT_TRUE(compared.KeepsToPaper() || (scenario.store_noise > 0 && compared.adaptive <= compared.paper + compared.service))
        << compared.adaptive << " s, paper " << compared.paper;
  }
}

// Stalls, tenfold changes, disks faster than the store, wild curves. Hardly one in a hundred is missed, and those not by far;
// seeds that miss are printed. KEDGE_TEST_SEEDS=FIRST,COUNT tries others (docs/adaptive.md).
TEST(UnseenScenarios, AdaptiveIsHardlyEverSlowerThanTheBestOther) {
  unsigned long first = 0, count = std::getenv("KEDGE_TEST_LONG") != nullptr ? 5000 : 500;
  if (const char* seeds = std::getenv("KEDGE_TEST_SEEDS")) {
    ASSERT_EQ(std::sscanf(seeds, "%lu,%lu", &first, &count), 2) << seeds;
  }
  unsigned long best_missed = 0, paper_missed = 0, paper_missed_by_a_chunk = 0;
  double logarithms = 0;
  for (unsigned long seed = first; seed < first + count; ++seed) {
    const Compared compared(Parse(RandomScenario(seed)));
    logarithms += std::log(compared.adaptive / compared.best);
    if (!compared.KeepsToPaper()) ++paper_missed;
    if (!compared.KeepsToPaper() && compared.adaptive > compared.paper + compared.service) ++paper_missed_by_a_chunk;
    if (compared.KeepsToBest()) continue;
    ++best_missed;
    std::printf("seed %lu: adaptive %.2f s, best other %.2f s\n", seed, compared.adaptive, compared.best);
    EXPECT_LE(compared.adaptive, 4 * compared.best) << "seed " << seed;
  }
  const double mean = std::exp(logarithms / static_cast<double>(count));
  std::printf(
      "%lu seeds from %lu: %.3f of the best other; slower than it %lu, than paper by over 2%% %lu, and by over a chunk %lu\n",
      count, first, mean, best_missed, paper_missed, paper_missed_by_a_chunk);
  EXPECT_LE(best_missed, count / 100);
  EXPECT_LE(paper_missed, count / 25);
  EXPECT_LE(paper_missed_by_a_chunk, count / 100);
  EXPECT_LE(mean, 0.85) << "of the best other, in the mean";
}

TEST(Noise, IsTheChunksAndNotThePolicys) {
  const Scenario scenario = Parse(kSmall);
  const double bytes = static_cast<double>(scenario.chunk_bytes);
  EXPECT_EQ(TransferBytes(scenario, 0, 0, 7, Transfer::kWrite), bytes);
  double sum = 0, squares = 0;
  constexpr int kCount = 10000;
  for (uint64_t chunk = 0; chunk < kCount; ++chunk) {
    const double relative = TransferBytes(scenario, 0.1, 3, chunk, Transfer::kWrite) / bytes;
    EXPECT_EQ(relative * bytes, TransferBytes(scenario, 0.1, 3, chunk, Transfer::kWrite));
    EXPECT_NE(relative * bytes, TransferBytes(scenario, 0.1, 3, chunk, Transfer::kFlush));
    EXPECT_NE(relative * bytes, TransferBytes(scenario, 0.1, 4, chunk, Transfer::kWrite));
    sum += relative;
    squares += (relative - 1) * (relative - 1);
  }
  EXPECT_NEAR(sum / kCount, 1, 0.005);
  EXPECT_NEAR(std::sqrt(squares / kCount), 0.1, 0.005);
}

TEST(Noise, MayBeOneDevicesAlone) {
  const std::string all = kSmall;
  Scenario scenario = Parse(all);
  EXPECT_EQ(scenario.tiers[0].noise, 0.1);
  EXPECT_EQ(scenario.store_noise, 0.1);
  scenario = Parse("chunk_mib" + all.substr(all.find(" =")) + "noise = 0.3\n");
  EXPECT_EQ(scenario.tiers[1].noise, 0.1);
  EXPECT_EQ(scenario.store_noise, 0.3);
  std::string tier = all;
  tier.replace(tier.find("name = \"ssd\""), 0, "noise = 0\n");
  scenario = Parse(tier);
  EXPECT_EQ(scenario.tiers[0].noise, 0.1);
  EXPECT_EQ(scenario.tiers[1].noise, 0);
}

TEST(Virtual, IsTheSameEveryTime) {
  const Scenario scenario = Parse(kSmall);
  for (auto policy : PlacementPolicyNames()) {
    const PlacementResult first = RunScenario(scenario, policy);
    const PlacementResult second = RunScenario(scenario, policy);
    EXPECT_EQ(first.local_seconds, second.local_seconds);
    EXPECT_EQ(first.flush_seconds, second.flush_seconds);
    EXPECT_EQ(first.chunks, second.chunks);
  }
}

TEST(Virtual, SeveralNodesShareTheStore) {
  Scenario scenario = Parse(kSmall);
  const PlacementResult one = RunScenario(scenario, "adaptive");
  scenario.nodes = 4;
  const PlacementResult four = RunScenario(scenario, "adaptive");
  EXPECT_EQ(ChunksOf(four), 4 * ChunksOf(one));
  EXPECT_GT(four.flush_seconds, 2 * one.flush_seconds);
  EXPECT_GT(four.bound_seconds, one.bound_seconds);
}

// Threads against the wall clock, a hundred times as fast as modelled.
TEST(WallClock, ConfirmsVirtualTime) {
  Scenario scenario = Parse(kSmall);
  scenario.store_noise = 0;
  for (ScenarioTier& tier : scenario.tiers) tier.noise = 0;
  const PlacementResult expected = RunScenario(scenario, "adaptive");
  scenario.time_scale = 0.1;
  const PlacementResult measured = RunScenario(scenario, "adaptive");
  EXPECT_EQ(ChunksOf(measured), ChunksOf(expected));
  EXPECT_GE(measured.local_seconds, 0.6 * expected.local_seconds);
  // A busy machine adds to it, and may choose otherwise here and there.
  EXPECT_LE(measured.local_seconds, 2 * expected.local_seconds + 2);
  EXPECT_GE(measured.flush_seconds, 0.9 * expected.flush_seconds);
}

TEST(Bound, IsBytesBeyondTheCacheOverStoreAndDisk) {
  Scenario scenario = Parse(R"(
chunk_mib = 1
writers = 10
chunks_per_writer = 11
[[tier]]
name = "cache"
capacity_chunks = 10
curve = [[1, 100000]]
[[tier]]
name = "ssd"
capacity_chunks = 1000
curve = [[4, 6.291456]]
[store]
curve = [[1, 2.097152], [2, 4.194304]]
workers_max = 2
)");
  EXPECT_NEAR(BoundSeconds(scenario), 100.0 / (6 + 4), 1e-6);
  scenario.store_shares = {{2, 0}, {7, 1}};
  EXPECT_NEAR(BoundSeconds(scenario), 7 + (100 - 7 * 6 - 2 * 4) / 10.0, 1e-6) << "nothing while the store stalls";
  scenario.tiers[1].capacity_chunks = 20;
  scenario.store_shares.clear();
  EXPECT_NEAR(BoundSeconds(scenario), 80.0 / 4, 1e-6) << "a full disk takes what the store takes from it";
}

TEST(Parsing, NamesWhatIsWrong) {
  const std::string good = kSmall;
  ASSERT_TRUE(ParseScenario(good, "s").ok());
  auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return ParseScenario(text, "s").status();
  };
  struct Wrong {
    std::string from, to;
    std::vector<std::string> named;  // key, value, what is allowed
  };
  for (const Wrong& wrong :
       std::vector<Wrong>{{"writers = 20", "writers = 0", {"writers: 0 found", "1 to 65536"}},
                          {"writers = 20", "writers = 1.5", {"writers: 1.5 found", "whole", "1 to 65536"}},
                          {"writers = 20", "writers = \"many\"", {"writers", "many", "1 to 65536"}},
                          {"writers = 20", "", {"writers: missing", "1 to 65536"}},
                          {"chunk_mib = 64", "chunk_mib = -64", {"chunk_mib: -64 found", "0.001 to"}},
                          {"chunk_mib = 64", "time_scale = -1\nchunk_mib = 64", {"time_scale: -1 found", "0 to 1000"}},
                          {"chunk_mib = 64", "seed = -1\nchunk_mib = 64", {"seed: -1 found", "0 to"}},
                          {"chunk_mib = 64", "nodes = 0\nchunk_mib = 64", {"nodes: 0 found", "1 to"}},
                          {"noise = 0.1", "noise = 2", {"noise: 2 found", "0 to 1"}},
                          {"noise", "noises", {"noises: unknown key", "chunks_per_writer"}},
                          {"chunks_per_writer = 3", "chunks_per_writer = 1e6", {"chunks_per_writer: 1000000 found", "4000000"}},
                          {"[[1, 8000]]", "[[1, -1]]", {"tier 1: curve: [1, -1] found", "above 0"}},
                          {"[[1, 8000]]", "[[1, inf]]", {"tier 1: curve: [1, inf] found", "up to"}},
                          {"[[1, 8000]]", "[]", {"tier 1: curve: [] found", "one pair at least"}},
                          {"[[1, 8000]]", "[[1.5, 3]]", {"tier 1: curve: [1.5, 3] found", "whole", "1 to 4096"}},
                          {"[[1, 8000]]", "[[4, 3], [4, 5]]", {"tier 1: curve: [4, 5] found", "5 to 4096"}},
                          {"[[1, 8000]]", "3", {"tier 1: curve: 3 found", "list of pairs"}},
                          {"[[1, 8000]]", "[[1, 2, 3]]", {"tier 1: curve", "[ 1, 2, 3 ] found", "pair of numbers"}},
                          {"capacity_chunks = 8", "capacity_chunks = -8", {"tier 1: capacity_chunks: -8 found", "0 to"}},
                          {"capacity_chunks = 8", "capacity = 8", {"tier 1: capacity: unknown key", "capacity_chunks"}},
                          {"capacity_chunks = 8", "share = [[1, 0]]\ncapacity_chunks = 8", {"tier 1: share: 0 found", "above 0"}},
                          {"\"ssd\"", "\"cache\"", {"cache", "taken"}},
                          {"\"ssd\"", "7", {"tier 2: name: 7 found", "text"}},
                          {"[1.5, 1]", "[1.5, 0]", {"store: share: 0 found", "above 0"}},
                          {"[1.5, 1]", "[0.1, 1]", {"store: share: [0.1, 1] found", "0.5 or later"}},
                          {"[1.5, 1]", "[1.5, -1]", {"store: share: [1.5, -1] found", "0 or greater"}},
                          {"workers_max = 4", "workers_max = 0", {"store: workers_max: 0 found", "1 to 4096"}},
                          {"workers_max = 4", "noise = -1\nworkers_max = 4", {"store: noise: -1 found", "0 to 1"}},
                          {"[store]", "[stores]", {"stores: unknown key"}},
                          {"chunk_mib = 64", "chunk_mib = ", {"s:2"}}}) {
    const Status status = with(wrong.from, wrong.to);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << wrong.to;
    for (const std::string& part : wrong.named) EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
  EXPECT_EQ(ReadScenario("/nonexistent.toml").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace kedge::bench
