// The targets of placement, in virtual time: the paper's scenarios, scenarios that nobody has seen, the bound, the clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "modelled/runner.h"
#include "placement/policy.h"
#include "random_scenario.h"

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

// Stalls, tenfold changes, disks faster than the store, wild curves. Not one in a hundred is missed, and those not by far; seeds
// that miss are printed, and bench/modelled runs them again.
TEST(UnseenScenarios, AdaptiveIsHardlyEverSlowerThanTheBestOther) {
  const uint64_t count = std::getenv("KEDGE_TEST_LONG") != nullptr ? 5000 : 500;
  uint64_t missed = 0;
  double logarithms = 0;
  for (uint64_t seed = 0; seed < count; ++seed) {
    const Scenario scenario = Parse(RandomScenario(seed));
    const double adaptive = RunScenario(scenario, "adaptive").local_seconds;
    double best = RunScenario(scenario, "paper").local_seconds;
    for (auto policy : {"naive", "ssd-only"}) best = std::min(best, RunScenario(scenario, policy).local_seconds);
    logarithms += std::log(adaptive / best);
    if (adaptive <= std::max(1.03 * best, best + ServiceSeconds(scenario))) continue;
    ++missed;
    std::printf("seed %lu: adaptive %.2f s, best other %.2f s\n", static_cast<unsigned long>(seed), adaptive, best);
    EXPECT_LE(adaptive, 4 * best) << "seed " << seed;
  }
  EXPECT_LE(missed, count / 100);
  EXPECT_LE(std::exp(logarithms / static_cast<double>(count)), 0.85) << "of the best other, in the mean";
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
  scenario.noise = 0;
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
  for (const auto& [from, to, named] :
       std::vector<std::array<std::string, 3>>{{"writers = 20", "writers = 0", "writers"},
                                               {"writers = 20", "writers = 1.5", "writers"},
                                               {"writers = 20", "", "writers"},
                                               {"noise", "noises", "noises"},
                                               {"[[1, 8000]]", "[[1, -1]]", "curve"},
                                               {"[[1, 8000]]", "[]", "curve"},
                                               {"[[1, 8000]]", "[[1.5, 3]]", "curve"},
                                               {"[[1, 8000]]", "3", "curve"},
                                               {"\"ssd\"", "\"cache\"", "cache"},
                                               {"[1.5, 1]", "[1.5, 0]", "share"},
                                               {"[1.5, 1]", "[0.1, 1]", "share"},
                                               {"workers_max = 4", "workers_max = 0", "workers_max"},
                                               {"[store]", "[stores]", "stores"},
                                               {"chunks_per_writer = 3", "chunks_per_writer = 1e6", "chunks"},
                                               {"chunk_mib = 64", "chunk_mib = ", "s:2"}}) {
    const Status status = with(from, to);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << to;
    EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
  }
  EXPECT_EQ(ReadScenario("/nonexistent.toml").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace kedge::bench
