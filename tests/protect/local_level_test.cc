// Level LOCAL over several nodes: it speaks for all ranks, and no node lets an older version go before all have the newer one.
#include <signal.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/protect/protect_fixture.h"

namespace kedge::testing {
namespace {

using std::chrono::milliseconds;

constexpr char kRarely[] = "schedule.store=100\n";
constexpr char kPartnerRarely[] = "protect.scheme=partner\nschedule.node=100\nschedule.store=0\n";

// What a rank does, of one region.
class Worker {
 public:
  Worker(kedge_context* context, int rank) : context_(context), rank_(rank), memory_(Content(rank, 0)) {
    EXPECT_KEDGE_OK(kedge_protect(context_, 0, memory_.data(), memory_.size(), 8, nullptr));
  }
  void Take(int64_t version) {
    Fill(&memory_, rank_, version);
    EXPECT_KEDGE_OK(kedge_checkpoint(context_, "p", version, 0)) << "rank " << rank_ << ", version " << version;
  }
  int Wait(int64_t version, double seconds) { return kedge_wait(context_, "p", version, KEDGE_LEVEL_LOCAL, seconds); }
  kedge_level LevelOf(int64_t version) {
    kedge_level level = KEDGE_LEVEL_NONE;
    EXPECT_KEDGE_OK(kedge_test(context_, "p", version, &level));
    return level;
  }

 private:
  kedge_context* context_;
  const int rank_;
  std::vector<uint64_t> memory_;
};

struct Levels {
  const char* name;
  const char* keys;
};
const Levels kLevels[] = {{"StoreRarely", kRarely}, {"NoStore", kNoStore}, {"NodeRarely", kPartnerRarely}};

class LocalLevelTest : public ProtectTest {
 protected:
  explicit LocalLevelTest(int nodes = 2) : ProtectTest(nodes), together_(nodes) {}

  // Both ranks take versions 1 and 2, which are waited for; then each takes more by itself, up to the one that is named for it,
  // and the job ends.
  void TakeApart(const std::string& keys, int64_t last_of_first, int64_t last_of_second) {
    nodes_.Run({0, 1}, keys, [&](kedge_context* context, int rank) {
      Worker worker(context, rank);
      for (int64_t version = 1; version <= 2; ++version) {
        worker.Take(version);
        EXPECT_KEDGE_OK(worker.Wait(version, 20));
      }
      together_.arrive_and_wait();
      const int64_t last = rank == 0 ? last_of_first : last_of_second;
      for (int64_t version = 3; version <= last; ++version) {
        worker.Take(version);
        std::this_thread::sleep_for(milliseconds(100));  // what the agent lets go of, it lets go of now
      }
    });
  }

  // Version 1, which all ranks have, as though the node of rank 0 had not got round to telling the store.
  void TakeUntold() {
    Take({0, 1}, kNoStore, 1, KEDGE_LEVEL_LOCAL);
    const std::string told = nodes_.Store() + "/jobs/nodes/names/p/reached";
    for (int i = 0; i < 1000 && !std::filesystem::exists(told); ++i) std::this_thread::sleep_for(milliseconds(10));
    ASSERT_TRUE(std::filesystem::remove(told));
  }

  std::barrier<> together_;
};

class KeptByLevelsTest : public LocalLevelTest, public ::testing::WithParamInterface<Levels> {};
INSTANTIATE_TEST_SUITE_P(Levels, KeptByLevelsTest, ::testing::ValuesIn(kLevels),
                         [](const auto& levels) { return levels.param.name; });

TEST_P(KeptByLevelsTest, AVersionThatOneNodeHasNotTakenCostsNoOlderOne) {
  TakeApart(GetParam().keys, 3, 2);
  ExpectRestart({0, 1}, GetParam().keys, 2);
}

TEST_P(KeptByLevelsTest, ManyVersionsThatOneNodeHasNotTakenCostNoOlderOne) {
  TakeApart(GetParam().keys, 2, 7);
  ExpectRestart({0, 1}, GetParam().keys, 2);
}

TEST_P(KeptByLevelsTest, WhatTheAgentsSuccessorsTakeOverStaysToo) {
  TakeApart(GetParam().keys, 4, 2);
  for (const int node : {0, 1}) EXPECT_TRUE(nodes_.KillAgent(node));
  ExpectRestart({0, 1}, GetParam().keys, 2, [&](kedge_context* context, int rank) {
    Worker worker(context, rank);
    if (rank == 0) worker.Take(5);
  });
  ExpectRestart({0, 1}, GetParam().keys, 2);
}

// Versions go on, and what an abandoned future left is let go of.
TEST_P(KeptByLevelsTest, AJobGoesOnFromThere) {
  TakeApart(GetParam().keys, 4, 2);
  ExpectRestart({0, 1}, GetParam().keys, 2, [&](kedge_context* context, int rank) {
    Worker worker(context, rank);
    for (int64_t version = 3; version <= 6; ++version) {
      worker.Take(version);
      EXPECT_KEDGE_OK(worker.Wait(version, 20));
    }
  });
  ExpectRestart({0, 1}, GetParam().keys, 6);
}

// The nodes' agents do not hear each other: nobody knows what the other has.
TEST_P(KeptByLevelsTest, WithoutWordOfTheOtherNodeTheLastVersionThatAllHadStays) {
  nodes_.Run({0, 1}, GetParam().keys, [&](kedge_context* context, int rank) {
    Worker worker(context, rank);
    for (int64_t version = 1; version <= 2; ++version) {
      worker.Take(version);
      EXPECT_KEDGE_OK(worker.Wait(version, 20));
    }
    together_.arrive_and_wait();
    if (rank == 1) {
      const int agent = AgentPidAt(nodes_.RunFolder(0));
      kill(agent, SIGSTOP);
      for (int64_t version = 3; version <= 6; ++version) {
        worker.Take(version);
        std::this_thread::sleep_for(milliseconds(100));
      }
      EXPECT_EQ(worker.Wait(6, 0.5), KEDGE_ERROR_TIMEOUT);
      kill(agent, SIGCONT);
    }
    together_.arrive_and_wait();
  });
  ExpectRestart({0, 1}, GetParam().keys, 2);
}

TEST_F(LocalLevelTest, SpeaksForTheRanksOfAllNodes) {
  nodes_.Run({0, 1, 1}, kNoStore, [&, ranks = std::make_shared<std::barrier<>>(3)](kedge_context* context, int rank) {
    Worker worker(context, rank);
    if (rank < 2) worker.Take(1);
    if (rank < 2) {
      EXPECT_EQ(worker.Wait(1, 0.5), KEDGE_ERROR_TIMEOUT) << "rank " << rank;
      EXPECT_THAT(kedge_error_message(), ::testing::HasSubstr(rank == 0 ? "node n1 (ranks 1, 2)" : "ranks 2"));
      EXPECT_EQ(worker.LevelOf(1), KEDGE_LEVEL_NONE);
    }
    ranks->arrive_and_wait();
    if (rank == 2) worker.Take(1);
    EXPECT_KEDGE_OK(worker.Wait(1, 20)) << "rank " << rank;
    EXPECT_EQ(worker.LevelOf(1), KEDGE_LEVEL_LOCAL);
  });
}

// Rank 0 is far ahead: what it had to let go of meanwhile is said, and the two meet again.
TEST_F(LocalLevelTest, WhatAnotherNodeHasPassedByIsSaid) {
  nodes_.Run({0, 1}, kNoStore, [&](kedge_context* context, int rank) {
    Worker worker(context, rank);
    for (int64_t version = 1; rank == 0 && version <= 6; ++version) {
      worker.Take(version);
      std::this_thread::sleep_for(milliseconds(100));
    }
    together_.arrive_and_wait();
    if (rank == 1) {
      worker.Take(1);
      EXPECT_KEDGE_OK(worker.Wait(1, 20)) << "the oldest is kept for whoever is late";
      worker.Take(2);
      EXPECT_EQ(worker.Wait(2, 20), KEDGE_ERROR_FAILED_PRECONDITION);
      EXPECT_THAT(kedge_error_message(), ::testing::HasSubstr("passed by"));
      for (int64_t version = 3; version <= 6; ++version) worker.Take(version);
    }
    EXPECT_KEDGE_OK(worker.Wait(6, 20)) << "rank " << rank;
    together_.arrive_and_wait();
  });
  ExpectRestart({0, 1}, kNoStore, 6);
}

TEST_F(LocalLevelTest, TheAgentsSuccessorsLearnIt) {
  std::atomic<bool> is_killed{false};
  nodes_.Run({0, 1}, kNoStore, [&](kedge_context* context, int rank) {
    Worker worker(context, rank);
    if (rank == 1) {
      worker.Take(1);
      EXPECT_EQ(worker.Wait(1, 0.3), KEDGE_ERROR_TIMEOUT);
      for (const int node : {0, 1}) EXPECT_TRUE(nodes_.KillAgent(node));
      is_killed = true;
    } else {
      while (!is_killed) std::this_thread::sleep_for(milliseconds(5));
      for (const int node : {0, 1}) EXPECT_TRUE(nodes_.WaitForAgent(node));
      std::this_thread::sleep_for(milliseconds(500));  // an image that goes straight to the store is on no node
      worker.Take(1);
    }
    EXPECT_KEDGE_OK(worker.Wait(1, 30)) << "rank " << rank;
  });
}

// It has noted that all nodes have the version, and told nobody.
TEST_F(LocalLevelTest, TheLeadersSuccessorTellsTheOthers) {
  nodes_.StartAgent(0, {{"KEDGE_TEST_KILL_POINT", "local-complete:1"}});
  nodes_.Run({0, 1}, kNoStore, [&](kedge_context* context, int rank) {
    Worker worker(context, rank);
    worker.Take(1);
    EXPECT_KEDGE_OK(worker.Wait(1, 40)) << "rank " << rank;
  });
  EXPECT_TRUE(nodes_.AgentWasKilled());
}

// Two of its images do not fit into a pool: the newer one goes through to the store, chunk by chunk, and the older one stays.
TEST_F(LocalLevelTest, ANodeThatHasItsPartOfWhatAllHadKnowsThatItIsLost) {
  TakeUntold();
  nodes_.Lose(0);
  ExpectRestart({0, 1}, kNoStore, -1);
}

TEST_F(LocalLevelTest, ANodeThatHasAnotherRanksPartKnowsItToo) {
  TakeUntold();
  ExpectRestart({1, 0}, kNoStore, -1);
}

TEST_F(LocalLevelTest, APoolWithRoomForOneVersionKeepsTheOneThatAllHave) {
  constexpr char kSmall[] = "schedule.store=0\npool.size=24MiB\n";
  constexpr size_t kWords = 2 << 20;  // 16 MiB
  nodes_.Run({0, 1}, kSmall, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(kWords, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_LOCAL, 20));
    together_.arrive_and_wait();
    if (rank == 1) return;
    for (int64_t version = 2; version <= 4; ++version) {
      std::fill(memory.begin(), memory.end(), static_cast<uint64_t>(version));
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
    }
    kedge_statistics statistics{};
    statistics.struct_size = sizeof statistics;
    EXPECT_KEDGE_OK(kedge_get_statistics(context, &statistics));
    EXPECT_GT(statistics.bytes_through, 0u);
  });
  nodes_.Run({0, 1}, kSmall, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(kWords);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
    EXPECT_EQ(version, 1) << "rank " << rank;
    EXPECT_TRUE(memory == std::vector<uint64_t>(kWords, 1)) << "rank " << rank;
  });
}

}  // namespace
}  // namespace kedge::testing
