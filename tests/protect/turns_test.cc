// Levels limited by an interval, with ranks that keep apart: all nodes let the same versions get there.
#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/protect/protect_fixture.h"

namespace kedge::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kSpan(2);  // of the intervals below

void SleepUntilIntoSpan(milliseconds into) {
  const auto now = std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  std::this_thread::sleep_for((into - now % kSpan + 2 * kSpan) % kSpan);
}

struct Limited {
  const char* name;
  const char* keys;
  kedge_level level;
};
const Limited kLimited[] = {
    {"Store", "schedule.store_interval=2s\nkeep.local=100\nkeep.versions=100\n", KEDGE_LEVEL_STORE},
    {"Node", "protect.scheme=partner\nschedule.node_interval=2s\nschedule.store=0\nkeep.local=100\n", KEDGE_LEVEL_NODE}};

class TurnsTest : public ProtectTest, public ::testing::WithParamInterface<Limited> {
 protected:
  TurnsTest() : ProtectTest(2) {}

  static void Protect(kedge_context* context, std::vector<uint64_t>* memory) {
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory->data(), memory->size(), 8, nullptr));
  }
  static kedge_level LevelOf(kedge_context* context, int64_t version) {
    EXPECT_KEDGE_OK(kedge_wait(context, "t", version, KEDGE_LEVEL_LAST, 20)) << "version " << version;
    kedge_level level = KEDGE_LEVEL_NONE;
    EXPECT_KEDGE_OK(kedge_test(context, "t", version, &level));
    return level;
  }
};
INSTANTIATE_TEST_SUITE_P(Levels, TurnsTest, ::testing::ValuesIn(kLimited),
                         [](const auto& limited) { return limited.param.name; });

// A version a second, a span of two, and an edge of it between the ranks each time: by their own clocks they never agree.
TEST_P(TurnsTest, RanksThatKeepApartAgree) {
  constexpr int64_t kVersions = 5;
  std::array<std::array<kedge_level, kVersions>, 2> levels{};
  nodes_.Run({0, 1}, GetParam().keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(1000);
    Protect(context, &memory);
    SleepUntilIntoSpan(kSpan - milliseconds(250));
    std::this_thread::sleep_for(milliseconds(500 * rank));
    auto next = std::chrono::steady_clock::now();
    for (int64_t version = 0; version < kVersions; ++version) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "t", version, 0));
      next += seconds(1);
      std::this_thread::sleep_until(next);
    }
    for (int64_t version = 0; version < kVersions; ++version)
      levels[static_cast<size_t>(rank)][static_cast<size_t>(version)] = LevelOf(context, version);
  });
  EXPECT_EQ(levels[0], levels[1]);
  EXPECT_EQ(levels[0][0], GetParam().level) << "the first of an attempt";
  const auto reached = std::count(levels[0].begin(), levels[0].end(), GetParam().level);
  EXPECT_GE(reached, 3);
  EXPECT_LE(reached, 4) << "no interval held";
}

// Rank 1 is a version ahead. Whoever's agent dies meanwhile, its successor goes on asking, or answers.
TEST_P(TurnsTest, AnUndecidedVersionOutlivesTheAgents) {
  std::atomic<bool> is_killed{false};
  nodes_.Run({0, 1}, GetParam().keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(1000);
    Protect(context, &memory);
    if (rank == 1) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "t", 0, 0));
      std::this_thread::sleep_for(milliseconds(100));
      kedge_level level = KEDGE_LEVEL_NONE;
      EXPECT_KEDGE_OK(kedge_test(context, "t", 0, &level));
      EXPECT_EQ(level, KEDGE_LEVEL_NONE) << "rank 0 has not taken it yet";
      EXPECT_TRUE(nodes_.KillAgent(0));
      EXPECT_TRUE(nodes_.KillAgent(1));
      is_killed = true;
    } else {
      while (!is_killed) std::this_thread::sleep_for(milliseconds(5));
      for (const int node : {0, 1}) EXPECT_TRUE(nodes_.WaitForAgent(node));
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "t", 0, 0));
    }
    EXPECT_GE(LevelOf(context, 0), GetParam().level) << "rank " << rank << "; the store's, if rank 0 went there without an agent";
  });
}

// Rank 0 has begun its image, and rank 1 has been told, when the agent that decided dies.
TEST_P(TurnsTest, WhatWasToldHoldsForTheSuccessorToo) {
  nodes_.StartAgent(0, {{"KEDGE_TEST_KILL_POINT", "image-end-before-record:1"}});
  nodes_.Run({0, 1}, GetParam().keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(600'000);
    Protect(context, &memory);
    EXPECT_KEDGE_OK(kedge_checkpoint_begin(context, "t", 0, 0));
    EXPECT_KEDGE_OK(kedge_checkpoint_part(context, KEDGE_ALL, nullptr, 0));
    if (rank == 0) std::this_thread::sleep_for(milliseconds(500));
    EXPECT_KEDGE_OK(kedge_checkpoint_end(context, 1));
    EXPECT_GE(LevelOf(context, 0), GetParam().level) << "rank " << rank;
  });
  EXPECT_TRUE(nodes_.AgentWasKilled());
}

// Rank 0's image is in the store, and its agent has never heard of it. By the clock it is not the version's turn.
TEST_F(ProtectTest, AnImageThatRankZeroWroteItselfDecidesForTheStore) {
  std::atomic<bool> is_taken{false};
  const std::string keys = "schedule.store_interval=1h\nkeep.local=100\nkeep.versions=100\n";
  // The variable stays as it is while threads read it; what it leads to changes.
  const std::string program = nodes_.Store() + ".agent";
  const auto lead_to = [&](const std::filesystem::path& agent) {
    std::filesystem::create_symlink(agent, program + ".new");
    std::filesystem::rename(program + ".new", program);
  };
  const auto agent = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin/kedge-agent";
  lead_to(agent);
  setenv("KEDGE_AGENT", program.c_str(), 1);
  nodes_.Run({0, 1}, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(1000);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "t", 0, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "t", 0, KEDGE_LEVEL_STORE, 20));
    if (rank == 0) {
      lead_to("/bin/false");
      EXPECT_TRUE(nodes_.KillAgent(0));
      std::this_thread::sleep_for(milliseconds(300));
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "t", 1, 0));
      lead_to(agent);
      kedge_statistics statistics{};
      statistics.struct_size = sizeof statistics;
      EXPECT_KEDGE_OK(kedge_get_statistics(context, &statistics));
      EXPECT_EQ(statistics.checkpoints_inline, 1u) << "this test shows nothing";
      is_taken = true;
    } else {
      while (!is_taken) std::this_thread::sleep_for(milliseconds(5));
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "t", 1, 0));
    }
    EXPECT_KEDGE_OK(kedge_wait(context, "t", 1, KEDGE_LEVEL_STORE, 20));
  });
  unsetenv("KEDGE_AGENT");
}

// It has given its image of it up; by the clock it would be the version's turn. Nobody ever has it at any level.
TEST_P(TurnsTest, AVersionThatRankZeroLeftOutGetsNoLevel) {
  nodes_.Run({0, 1}, GetParam().keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(1000);
    Protect(context, &memory);
    const auto take = [&](int64_t version) { EXPECT_KEDGE_OK(kedge_checkpoint(context, "t", version, 0)); };
    take(0);
    EXPECT_EQ(LevelOf(context, 0), GetParam().level);
    std::this_thread::sleep_for(kSpan);
    if (rank == 1) {
      take(1);
    } else {
      EXPECT_KEDGE_OK(kedge_checkpoint_begin(context, "t", 1, 0));
      EXPECT_KEDGE_OK(kedge_checkpoint_end(context, 0));
    }
    take(2);
    EXPECT_EQ(LevelOf(context, 2), GetParam().level);
    if (rank == 0) return;
    EXPECT_NE(kedge_wait(context, "t", 1, KEDGE_LEVEL_LOCAL, 1), KEDGE_OK);
  });
}

TEST_F(ProtectTest, AnAgentThatCannotAskGoesByItsOwnClock) {
  std::atomic<bool> is_taken{false};
  nodes_.Run({0, 1}, kLimited[0].keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(1000);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    if (rank == 1) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "t", 0, 0));
      nodes_.Pause(0, milliseconds(18000));
      EXPECT_NE(nodes_.Log(1).find("so this node's clock does"), std::string::npos) << "it has not given up";
      is_taken = true;
    } else {
      while (!is_taken) std::this_thread::sleep_for(milliseconds(5));
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "t", 0, 0));
    }
    EXPECT_KEDGE_OK(kedge_wait(context, "t", 0, KEDGE_LEVEL_STORE, 20)) << "the first of an attempt by either clock";
  });
}

}  // namespace
}  // namespace kedge::testing
