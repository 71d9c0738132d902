// Nodes are lost; what was at level NODE comes back bit for bit without the store, and is protected again.
//
// Each test runs a job of rank threads over virtual nodes, waits for level NODE, takes nodes away (agents killed, tiers
// deleted), and launches the job again on the nodes that are left or that are new under the old names.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <thread>

#include "base/testing/sanitized.h"
#include "tests/protect/protect_fixture.h"
#include "tests/support/point_names.h"

namespace kedge::testing {
namespace {

using ::testing::HasSubstr;

class SchemeTest : public ProtectTest, public ::testing::WithParamInterface<Scheme> {
 protected:
  std::string Keys() const { return std::string(GetParam().keys) + kNoStore; }
};
INSTANTIATE_TEST_SUITE_P(Schemes, SchemeTest, ::testing::ValuesIn(kSchemes), NameOf);

TEST_P(SchemeTest, LosesWhatItMayAndComesBack) {
  Take(all_, Keys(), 2);
  for (int node = 0; node < GetParam().losses; ++node) nodes_.Lose(node * 2);
  EXPECT_EQ(ExpectRestart(all_, Keys(), 2), 0u);
}

// A pool of one slot: images and redundancy lie in files.
TEST_P(SchemeTest, NodesWithNextToNoMemoryProtectOnTheirDisks) {
  const auto overrides = [&](int rank) {
    const std::string tier = R"(tier=[{name="ssd", path=")" + nodes_.RunFolder(rank) + R"(/ssd", capacity="64MiB"}])";
    return nodes_.Overrides(rank, Keys()) + "pool.size=4MiB\n" + tier + "\n";
  };
  ThreadRanks(4).Run(overrides, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = TwoChunks(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    for (int version = 1; version <= 3; ++version) {
      std::ranges::copy(TwoChunks(rank, version), memory.begin());
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
      EXPECT_KEDGE_OK(kedge_wait(context, "p", version, KEDGE_LEVEL_NODE, 60));
    }
    kedge_statistics statistics{};
    statistics.struct_size = sizeof statistics;
    EXPECT_KEDGE_OK(kedge_get_statistics(context, &statistics));
    EXPECT_GE(statistics.bytes_directory, 3 * (memory.size() * 8 - (4 << 20))) << "rank " << rank;
  });
  for (int node = 0; node < GetParam().losses; ++node) nodes_.Lose(node * 2);
  ThreadRanks(4).Run(overrides, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = TwoChunks(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
    EXPECT_EQ(version, 3);
    EXPECT_TRUE(memory == TwoChunks(rank, 3)) << "rank " << rank;
  });
}

// The threads of a process that work off what it has queued, by their nice value.
std::multiset<int> NiceOfWorkers(int pid) {
  std::multiset<int> found;
  std::error_code gone;  // threads end meanwhile
  std::filesystem::directory_iterator task("/proc/" + std::to_string(pid) + "/task", gone), end;
  for (; !gone && task != end; task.increment(gone)) {
    std::ifstream stat(task->path() / "stat");
    std::string text;
    std::getline(stat, text);
    if (text.find("(kedge-flush)") == std::string::npos) continue;
    std::istringstream fields(text.substr(text.rfind(')') + 2));  // from the third on
    std::string field;
    for (int number = 3; number <= 19; ++number) fields >> field;
    found.insert(std::stoi(field));
  }
  return found;
}

uint64_t PrivateBytes(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) << 10;
  }
  return 0;
}

// Images of which any two would break the bound that the agent keeps over its pool.
TEST_P(SchemeTest, WorksAtLowPriorityAndInBoundedMemory) {
  constexpr uint64_t kPrivateBytesMax = 64 << 20;
  constexpr size_t kWords = (40 << 20) / 8;
  const std::string keys = Keys() + "pool.size=160MiB\n";
  std::atomic<bool> has_ended{false};
  uint64_t peak_bytes = 0;
  std::set<int> nice;
  std::thread watch([&] {
    for (; !has_ended; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      for (const int node : all_) {
        const int pid = AgentPidAt(nodes_.RunFolder(node));
        if (pid == 0) continue;
        peak_bytes = std::max(peak_bytes, PrivateBytes(pid));
        for (const int value : NiceOfWorkers(pid)) nice.insert(value);
      }
    }
  });
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(kWords);
    Random(static_cast<uint64_t>(rank)).Fill(memory.data(), memory.size() * 8);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 120));
  });
  has_ended = true;
  watch.join();
  EXPECT_GT(peak_bytes, 0u);
  if (!kIsSanitized) {
    EXPECT_LE(peak_bytes, kPrivateBytesMax);
  }
  EXPECT_EQ(nice, std::set<int>{10}) << "whoever computes comes first";
}

// A process that reads another rank's image asks its own node and the store, and is told where that is not enough.
TEST_F(ProtectTest, AnotherNodesImageIsReadFromTheStoreAlone) {
  const std::vector<int> nodes = {0, 1, 2};
  const std::string keys = "protect.scheme=xor\nschedule.store=0\n";
  Take(nodes, keys, 1);
  nodes_.Run(nodes, keys, [&](kedge_context* context, int rank) {
    const auto load = [&](int as) {
      EXPECT_KEDGE_OK(kedge_restart_as(context, as));
      const int code = kedge_load_begin(context, "p", 1);
      const std::string message = code == KEDGE_OK ? "" : kedge_error_message();
      if (code == KEDGE_OK) {
        EXPECT_KEDGE_OK(kedge_restart_end(context, 1));
      }
      return std::pair(code, message);
    };
    EXPECT_EQ(load(rank).first, KEDGE_OK);
    const auto [code, message] = load((rank + 1) % 3);
    EXPECT_EQ(code, KEDGE_ERROR_UNAVAILABLE);
    EXPECT_THAT(message, HasSubstr("is neither on this node nor in the store"));
    EXPECT_KEDGE_OK(kedge_restart_as(context, -1));
  });
}

TEST_P(SchemeTest, IsProtectedAgainAfterARestart) {
  Take(all_, Keys(), 1);
  nodes_.Lose(1);
  ExpectRestart(all_, Keys(), 1, [](kedge_context* context, int rank) {
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60)) << ", rank " << rank;
  });
  // What was rebuilt, and the redundancy of it, are as good as what was captured.
  nodes_.Lose(2);
  EXPECT_EQ(ExpectRestart(all_, Keys(), 1), 0u);
}

// Node 0 and those behind it: with partners, both that have an image.
TEST_P(SchemeTest, OneMoreNeedsTheStore) {
  const std::string keys = std::string(GetParam().keys) + "schedule.store=1\n";
  Take(all_, keys, 1, KEDGE_LEVEL_STORE);
  for (int node = 0; node <= GetParam().losses; ++node) nodes_.Lose(node);
  EXPECT_GT(ExpectRestart(all_, keys, 1), 0u);
}

// Rank 0's node has lost nothing, and says what the others have.
TEST_P(SchemeTest, OneMoreSaysWhatIsLost) {
  Take(all_, Keys(), 1);
  std::vector<int> lost;
  for (int node = 1; node <= GetParam().losses + 1; ++node) lost.push_back(node);
  for (const int node : lost) nodes_.Lose(node);
  nodes_.Run(all_, Keys(), [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_EQ(kedge_restart(context, "p", -1, nullptr), KEDGE_ERROR_LOST);
    // The copies of rank 2 are not among them.
    const bool has_copies = GetParam().name == std::string("Partner");
    const std::string images = has_copies ? "the image of rank 1" : fmt::format("the images of ranks {}", fmt::join(lost, ", "));
    EXPECT_THAT(kedge_error_message(), HasSubstr(images)) << "rank " << rank;
    EXPECT_THAT(kedge_error_message(), HasSubstr("version 1")) << "rank " << rank;
  });
  EXPECT_THAT(nodes_.Log(1), HasSubstr("rank 1 is lost on the nodes"));
}

TEST_F(ProtectTest, ANodeWithSeveralRanks) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  const std::vector<int> places = {0, 0, 0, 1, 2, 2, 3};
  Take(places, keys, 1);
  nodes_.Lose(0);
  EXPECT_EQ(ExpectRestart(places, keys, 1), 0u);
}

class SealedTest : public SchemeTest {
 protected:
  uint64_t CounterOf(int node, const std::string& counter) {
    auto status = nodes_.Tool(node, {"status", "--json"});
    EXPECT_TRUE(status->Succeeds(std::chrono::seconds(20)));
    const std::string output = status->Output(), key = "\"" + counter + "\":";
    const size_t at = output.find(key);
    EXPECT_NE(at, std::string::npos) << counter;
    return at == std::string::npos ? 0 : std::stoull(output.substr(at + key.size()));
  }
};
INSTANTIATE_TEST_SUITE_P(Schemes, SealedTest, ::testing::ValuesIn(kSchemes), NameOf);

TEST_P(SealedTest, NothingIsReadInTheClear) {
  const std::string keys = Keys() + "net.encrypt=true\n";
  Take(all_, keys, 2);
  for (int node = 0; node < GetParam().losses; ++node) nodes_.Lose(node * 2);
  EXPECT_EQ(ExpectRestart(all_, keys, 2), 0u);
  uint64_t sealed = 0;
  for (const int node : all_) {
    EXPECT_EQ(CounterOf(node, "parts_leased"), 0u) << "node " << node;
    sealed += CounterOf(node, "blocks_sealed");
  }
  EXPECT_GT(sealed, 0u);
}

TEST_F(ProtectTest, RanksThatMoveFindTheirImages) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  Take(all_, keys, 1);
  EXPECT_EQ(ExpectRestart({3, 2, 1, 0}, keys, 1), 0u);
}

// Nodes bring each other nothing then. What the others have is not said to be gone: with the ranks back it is there.
TEST_F(ProtectTest, WithoutASchemeRanksThatMoveHearWhereTheirImagesMayBe) {
  Take({0, 1}, kNoStore, 1, KEDGE_LEVEL_LOCAL);
  nodes_.Run({1, 0}, kNoStore, [](kedge_context* context, int /*rank*/) {
    int64_t version = -1;
    EXPECT_EQ(kedge_restart(context, "p", -1, &version), KEDGE_ERROR_LOST);
    EXPECT_THAT(kedge_error_message(), ::testing::HasSubstr("nothing without protect.scheme"));
    EXPECT_THAT(kedge_error_message(), ::testing::Not(::testing::HasSubstr("no copy of any version is left")));
  });
  ExpectRestart({0, 1}, kNoStore, 1);
}

TEST_F(ProtectTest, ARestartAsksWithinTheGroupOnly) {
  const std::string keys = std::string("protect.scheme=partner\nprotect.group=2\n") + kNoStore;
  Take(all_, keys, 1);
  nodes_.Lose(1);
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
  for (const int node : all_) {
    auto status = nodes_.Tool(node, {"status", "--json"});
    EXPECT_TRUE(status->Succeeds(std::chrono::seconds(20)));
    // The other node of its group; a second time when the answer was old by then.
    EXPECT_THAT(status->Output(), ::testing::ContainsRegex(R"("inventories_asked":[12],)")) << "node " << node;
  }
}

class SixNodesTest : public ProtectTest {
 protected:
  SixNodesTest() : ProtectTest(6) {}
};

// Nodes 1 and 3 were away, know an older version only, and would be content with it.
TEST_F(SixNodesTest, AGroupThatWasAwayLearnsOfTheNewestVersion) {
  const std::string keys = std::string("protect.scheme=partner\nprotect.group=2\n") + kNoStore;
  Take({1, 3, 0, 2}, keys, 1);
  // In groups 0 and 4, 2 and 5: after the loss of 4 and 5 version 2 is whole on 0 and 2.
  nodes_.Run({0, 4, 2, 5}, keys, [](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 2);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_NODE, 60));
  });
  nodes_.Lose(4);
  nodes_.Lose(5);
  EXPECT_EQ(ExpectRestart({1, 3, 0, 2}, keys, 2), 0u);
}

TEST_F(ProtectTest, AWholeFailureDomain) {
  // Two groups of two, each with one node of either rack: two nodes of different groups go at once.
  nodes_.SetDomains({"rack1", "rack1", "rack2", "rack2"});
  const std::string keys = std::string("protect.scheme=xor\nprotect.group=2\n") + kNoStore;
  Take(all_, keys, 1);
  nodes_.Lose(0);
  nodes_.Lose(1);
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
}

TEST_F(ProtectTest, TheAgentsSuccessorGoesOn) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    if (rank == 2) nodes_.KillAgent(2);
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
  });
  nodes_.Lose(0);
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
}

class KilledAtTest : public ProtectTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Protecting, KilledAtTest,
                         ::testing::Values("protect-measured", "protect-block", "protect-block:2", "protect-made", "protect-kept",
                                           "serve-lease"),
                         NameOfPoint<const char*>);

// With two rows of parity, each node's are made in two runs of blocks at least.
TEST_P(KilledAtTest, TheVersionGetsThereAllTheSame) {
  const std::string keys = std::string("protect.scheme=rs\nprotect.losses=2\nprotect.group=4\n") + kNoStore;
  nodes_.StartAgent(1, {{"KEDGE_TEST_KILL_POINT", GetParam()}});
  Take(all_, keys, 1);
  EXPECT_TRUE(nodes_.AgentWasKilled());
  nodes_.Lose(3);
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
}

TEST_F(ProtectTest, ANodeThatDiesWhileItsImageIsRebuiltBeginsAnew) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  Take(all_, keys, 1);
  nodes_.Lose(1);
  nodes_.StartAgent(1, {{"KEDGE_TEST_KILL_POINT", "bring-block:2"}});
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
  EXPECT_TRUE(nodes_.AgentWasKilled());
}

TEST_F(ProtectTest, ASurvivorsAgentThatDiesDuringTheRebuildIsSucceeded) {
  const std::string keys = std::string("protect.scheme=rs\nprotect.losses=2\nprotect.group=4\n") + kNoStore;
  Take(all_, keys, 1);
  nodes_.Lose(1);
  nodes_.KillAgent(2);
  nodes_.StartAgent(2, {{"KEDGE_TEST_KILL_POINT", "serve-lease"}});
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
  EXPECT_TRUE(nodes_.AgentWasKilled());
}

TEST_F(ProtectTest, AFlippedByteInASurvivorsImageIsPassedOverAndReplaced) {
  const std::string keys = std::string("protect.scheme=rs\nprotect.losses=2\nprotect.group=4\n") + kNoStore;
  Take(all_, keys, 1);
  // In both of its segments: the larger image, of node 3, takes blocks of one of them.
  nodes_.Lose(3);
  ASSERT_TRUE(nodes_.FlipInPool(2, Content(2, 1)));
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
  EXPECT_THAT(nodes_.Log(3), HasSubstr("is left out"));
}

TEST_F(ProtectTest, ANodeThatIsSilentForFiveSeconds) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  std::atomic<bool> silent{false};
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    if (rank == 1) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
      std::thread pause([this] { nodes_.Pause(1, std::chrono::seconds(5)); });
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      silent = true;
      pause.join();
    } else {
      for (int i = 0; i < 3000 && !silent; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
      EXPECT_EQ(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 1), KEDGE_ERROR_TIMEOUT);
    }
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
  });
  nodes_.Lose(3);
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
}

TEST_F(ProtectTest, ANodeThatStaysSilentIsNamed) {
  const std::string keys = std::string("protect.scheme=xor\nprotect.group=4\nprotect.timeout=2s\n") + kNoStore;
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    // Longer than the others have patience; its own agent has not begun when it stops.
    if (rank == 1) return nodes_.Pause(1, std::chrono::seconds(8));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_EQ(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60), KEDGE_ERROR_UNAVAILABLE);
    EXPECT_THAT(kedge_error_message(), HasSubstr("n1"));
    if (rank != 0) return;
    // And so is the command told that comes too late to see it fail, where it asks for that level.
    auto wait = nodes_.Tool(rank, {"wait", "--level", "node", "--timeout", "5s"});
    const auto ended = wait->Wait(std::chrono::seconds(20));
    EXPECT_TRUE(ended.has_value() && ended->exited && ended->exit_code == 1);
    EXPECT_THAT(wait->Output(), HasSubstr("n1"));
    EXPECT_TRUE(nodes_.Tool(rank, {"wait", "--level", "local", "--timeout", "5s"})->Succeeds(std::chrono::seconds(20)));
  });
}

// The store takes half a minute, and nobody who asks for level NODE waits for it.
TEST_F(ProtectTest, AWaitOfTheCommandEndsAtTheLevelThatIsNamed) {
  const std::string keys = std::string(kXorOfFour) + "flush.rate=64KiB\n";
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    if (rank != 3) return;
    EXPECT_TRUE(nodes_.Tool(rank, {"wait", "--level", "node", "--timeout", "30s"})->Succeeds(std::chrono::seconds(40)));
    kedge_level level = KEDGE_LEVEL_NONE;
    EXPECT_KEDGE_OK(kedge_test(context, "p", 1, &level));
    EXPECT_EQ(level, KEDGE_LEVEL_NODE);
    const std::vector<std::string> further = {"wait", "--timeout", "100ms"};
    std::vector<std::string> store = further;
    store.insert(store.end(), {"--level", "store"});
    for (const auto& command : {further, store}) {
      const auto ended = nodes_.Tool(rank, command)->Wait(std::chrono::seconds(20));
      EXPECT_TRUE(ended.has_value() && ended->exited && ended->exit_code == 4);
    }
  });
}

TEST_F(ProtectTest, ANodeThatIsSilentWhenAWaitIsOverIsNamed) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    if (rank == 1) return nodes_.Pause(1, std::chrono::seconds(4));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_EQ(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 1.5), KEDGE_ERROR_TIMEOUT);
    EXPECT_THAT(kedge_error_message(), AllOf(HasSubstr("still missing: nodes"), HasSubstr("n1")));
  });
}

// Rank 0's image of one version goes straight to the store, its agent being just dead. Its partner's agent is not to hold its own
// in the pool, in wait for one that never comes.
TEST_F(ProtectTest, NobodyWaitsForAnImageThatWentStraightToTheStore) {
  const std::string keys = std::string("protect.scheme=partner\nprotect.timeout=10min\n") + kNoStore;
  std::atomic<int64_t> inline_version{0}, agreed{0}, begun{0};
  const auto wait_for = [](const std::atomic<int64_t>& version) {
    for (int i = 0; i < 3000 && version == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return version.load();
  };
  nodes_.Run({0, 1}, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(1000);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    if (rank == 0) {
      const auto is_inline = [&](int64_t version) {
        kedge_statistics before{}, after{};
        before.struct_size = after.struct_size = sizeof before;
        EXPECT_KEDGE_OK(kedge_get_statistics(context, &before));
        begun = version;
        EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
        EXPECT_KEDGE_OK(kedge_get_statistics(context, &after));
        return after.checkpoints_inline > before.checkpoints_inline;
      };
      int64_t version = 1;
      // It takes a moment until the rank notices that its agent is gone; what it captures by then the successor finds.
      for (; !is_inline(version) && version < 1000; ++version) {
        if (version % 100 == 1) nodes_.KillAgent(0);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      inline_version = version;
      while (is_inline(++version) && version < 2000) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      agreed = version + 1;
    } else {
      // The same versions as rank 0.
      for (int64_t version = 1; agreed == 0 || version < agreed; ++version) {
        while (begun < version && agreed == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (begun >= version) {
          EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
        }
      }
    }
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", wait_for(agreed), 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", agreed, KEDGE_LEVEL_NODE, 60));
    if (rank == 0) return;
    // Its own image goes after rank 0's, which may be done by now.
    if (kedge_wait(context, "p", inline_version, KEDGE_LEVEL_NODE, 60) == KEDGE_OK) {
      kedge_level level = KEDGE_LEVEL_NONE;
      EXPECT_KEDGE_OK(kedge_test(context, "p", inline_version, &level));
      EXPECT_EQ(level, KEDGE_LEVEL_STORE);
    } else {
      EXPECT_THAT(kedge_error_message(), HasSubstr("node n0 has no image of rank 0"));
      // Also when the node has let go of it since.
      EXPECT_EQ(kedge_wait(context, "p", inline_version, KEDGE_LEVEL_NODE, 60), KEDGE_ERROR_UNAVAILABLE);
      EXPECT_THAT(kedge_error_message(), HasSubstr("node n0 has no image of rank 0"));
    }
  });
}

TEST_F(ProtectTest, EveryOtherVersion) {
  const std::string keys = std::string("protect.scheme=xor\nschedule.node=2\n") + kNoStore;
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    for (int64_t version = 1; version <= 4; ++version) {
      Fill(&memory, rank, version);
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
      EXPECT_KEDGE_OK(kedge_wait(context, "p", version, KEDGE_LEVEL_LAST, 60));
      kedge_level level = KEDGE_LEVEL_NONE;
      EXPECT_KEDGE_OK(kedge_test(context, "p", version, &level));
      EXPECT_EQ(level, version % 2 == 1 ? KEDGE_LEVEL_NODE : KEDGE_LEVEL_LOCAL) << version;
    }
    EXPECT_EQ(kedge_wait(context, "p", 4, KEDGE_LEVEL_NODE, 60), KEDGE_ERROR_FAILED_PRECONDITION);
  });
  nodes_.Lose(3);
  EXPECT_EQ(ExpectRestart(all_, keys, 3), 0u) << "version 4 was on the nodes only that took it";
}

// A slot for each version's copy would fill the pool's sixteen.
TEST_F(ProtectTest, CopiesOfSmallVersionsShareSlots) {
  const std::string keys = std::string("protect.scheme=partner\nkeep.local=100\nprotect.timeout=5s\n") + kNoStore;
  nodes_.Run(all_, keys, [&](kedge_context* context, int) {
    std::vector<uint64_t> memory(1000);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    for (int64_t version = 1; version <= 20; ++version) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
      ASSERT_EQ(kedge_wait(context, "p", version, KEDGE_LEVEL_NODE, 60), KEDGE_OK) << kedge_error_message();
    }
  });
}

// What the store has makes room with its copies. Node 1 has nothing else to give: its own images are small, and share a slot with
// those of every other version, which must stay, being nowhere else.
TEST_F(ProtectTest, CopiesOfStoredVersionsMakeRoom) {
  const std::string keys =
      "protect.scheme=partner\nprotect.timeout=5s\nkeep.local=100\nkeep.versions=100\nschedule.node=2\nschedule.store=2\n";
  constexpr size_t kWordsBelowASlot = 400'000, kWordsOfAFew = 1000;
  nodes_.Run({0, 1}, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(kWordsBelowASlot);
    for (int64_t version = 1; version <= 34; ++version) {
      const bool is_large = rank == 0 && version % 2 == 1;
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), is_large ? kWordsBelowASlot : kWordsOfAFew, 8, nullptr));
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
      ASSERT_EQ(kedge_wait(context, "p", version, KEDGE_LEVEL_LAST, 60), KEDGE_OK) << kedge_error_message();
    }
    // A version that is in the store counts as protected for whoever waits; its copy may be still to come.
    for (bool all = false; !all;) {
      auto status = nodes_.Tool(rank, {"status", "--json"});
      ASSERT_TRUE(status->Succeeds(std::chrono::seconds(20)));
      ASSERT_THAT(status->Output(), Not(HasSubstr("node_failure")));
      all = status->Output().find(R"({"level":"node","reached":false})") == std::string::npos;
    }
    kedge_statistics statistics{};
    statistics.struct_size = sizeof statistics;
    EXPECT_KEDGE_OK(kedge_get_statistics(context, &statistics));
    EXPECT_EQ(statistics.checkpoints_inline + statistics.bytes_through, 0u) << "rank " << rank;
  });
}

// Captures that want every slot that comes free. A version and its copy take a quarter of the pool.
class UnderLoadTest : public ProtectTest {
 protected:
  // One version after the other, or after the pause; all reach level NODE before a wait without progress ends.
  void TakeMany(const std::string& keys, int64_t versions, std::chrono::milliseconds pause, size_t words = 6 << 17,
                uint64_t through_max = 0) {
    nodes_.Run({0, 1}, "protect.scheme=partner\nprotect.timeout=8s\n" + keys, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory(words);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      for (int64_t version = 1; version <= versions; ++version) {
        memory[0] = static_cast<uint64_t>(version);
        EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
        std::this_thread::sleep_for(pause);
      }
      EXPECT_KEDGE_OK(kedge_wait(context, "p", versions, KEDGE_LEVEL_LAST, 60)) << ", rank " << rank;
      kedge_statistics statistics{};
      statistics.struct_size = sizeof statistics;
      EXPECT_KEDGE_OK(kedge_get_statistics(context, &statistics));
      EXPECT_LE(statistics.checkpoints_inline, through_max) << "rank " << rank;
      EXPECT_LE(statistics.bytes_through, through_max * words * 8) << "rank " << rank;
    });
    // But for one that went straight to the store on the other node, where that may be.
    for (const int node : {0, 1}) {
      std::istringstream log(nodes_.Log(node));
      for (std::string line; std::getline(log, line);) {
        const bool failed = line.find("has not reached level node") != std::string::npos;
        EXPECT_TRUE(!failed || (through_max > 0 && line.find("has no image of rank") != std::string::npos)) << line;
      }
    }
  }
};

TEST_F(UnderLoadTest, ASlowStoreLeavesRoomForRedundancy) {
  TakeMany("flush.rate=6MiB\n", 12, std::chrono::milliseconds(50));
}

TEST_F(UnderLoadTest, CapturesWaitForRedundancyToMakeRoom) {
  TakeMany(kNoStore, 40, std::chrono::milliseconds(0));
}

// Forty versions share a slot, which comes free when all of them are protected: a capture may wait too long for that now and
// then.
TEST_F(UnderLoadTest, SmallVersionsLeaveRoomForTheirRedundancy) {
  TakeMany(kNoStore, 300, std::chrono::milliseconds(0), 13'000, 50);
}

TEST_F(ProtectTest, DrainBringsWhatSurvivesToTheStore) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  Take(all_, keys, 2);
  nodes_.Lose(1);
  // One that survives has no agent: its drain starts a successor, which the others find at its address.
  nodes_.KillAgent(2);
  std::vector<std::unique_ptr<ChildProcess>> drains;
  for (const int node : {0, 2, 3})
    drains.push_back(nodes_.Tool(node, {"drain", "--job", "nodes", "--patience", "12s", "--timeout", "30s"}));
  for (auto& drain : drains) EXPECT_TRUE(drain->Succeeds(std::chrono::seconds(90)));
  ASSERT_FALSE(HasFailure());
  for (const int node : {0, 2, 3}) nodes_.Lose(node);
  EXPECT_GT(ExpectRestart(all_, keys, 2), 0u) << "nothing is left but the store";
}

// A version that the lost node had not taken yet waits for it on the others, until protect.timeout; a drain does not.
TEST_F(ProtectTest, DrainDoesNotWaitForWhatCannotBeProtected) {
  const std::string keys = std::string(kXorOfFour) + kNoStore + "protect.timeout=10min\n";
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
    if (rank != 1) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    }
  });
  nodes_.Lose(1);
  std::vector<std::unique_ptr<ChildProcess>> drains;
  for (const int node : {0, 2, 3})
    drains.push_back(nodes_.Tool(node, {"drain", "--job", "nodes", "--patience", "2s", "--timeout", "20s"}));
  for (auto& drain : drains) EXPECT_TRUE(drain->Succeeds(std::chrono::seconds(60))) << drain->Output();
}

// What a launch goes on from is what is announced, and carried to the store: not what an earlier one has gone back from.
TEST_F(ProtectTest, WhatTheJobHasGoneBackFromIsNotWhatSurvives) {
  const std::string keys = std::string(kXorOfFour) + kNoStore + "keep.local=5\n";
  Take(all_, keys, 3);
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_restart(context, "p", 1, nullptr));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
    Fill(&memory, rank, 2);
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_NODE, 60));
  });
  const auto look = nodes_.Tool(0, {"rebuild", "--job", "nodes", "--look"});
  EXPECT_TRUE(look->Succeeds(std::chrono::seconds(60))) << look->Output();
  EXPECT_THAT(look->Output(), ::testing::HasSubstr("p: 2, on the nodes"));
  std::vector<std::unique_ptr<ChildProcess>> drains;
  for (const int node : all_) drains.push_back(nodes_.Tool(node, {"drain", "--job", "nodes", "--timeout", "30s"}));
  for (auto& drain : drains) EXPECT_TRUE(drain->Succeeds(std::chrono::seconds(60))) << drain->Output();
  for (const int node : all_) nodes_.Lose(node);
  EXPECT_GT(ExpectRestart(all_, keys, 2), 0u) << "nothing is left but the store";
}

TEST_F(ProtectTest, RebuildBringsBackWhatIsLost) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  Take(all_, keys, 1);
  nodes_.Lose(1);
  std::vector<std::unique_ptr<ChildProcess>> rebuilds;
  for (const int node : {0, 2, 3}) rebuilds.push_back(nodes_.Tool(node, {"rebuild", "--job", "nodes", "--patience", "3s"}));
  int brought = 0;
  for (auto& rebuild : rebuilds) {
    EXPECT_TRUE(rebuild->Succeeds(std::chrono::seconds(60)));
    brought += rebuild->Output().find("; 1 image came to this node") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(brought, 1) << "one node takes it, and the others know that";
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
  EXPECT_THAT(nodes_.Log(1), HasSubstr("is here again: from node"));
}

TEST_F(ProtectTest, GroupsAndLevelsAreShown) {
  nodes_.SetDomains({"rack1", "rack1", "rack2", "rack2"});
  const std::string keys = std::string("protect.scheme=xor\nprotect.group=2\n") + kNoStore;
  Take(all_, keys, 1);
  auto groups = nodes_.Tool(0, {"status", "--groups"});
  EXPECT_TRUE(groups->Succeeds(std::chrono::seconds(20)));
  EXPECT_THAT(groups->Output(), HasSubstr("group 1 (xor"));
  EXPECT_THAT(groups->Output(), HasSubstr("[rack2]"));
  auto status = nodes_.Tool(0, {"status", "--json"});
  EXPECT_TRUE(status->Succeeds(std::chrono::seconds(20)));
  EXPECT_THAT(status->Output(), HasSubstr(R"({"level":"node","reached":true})"));
}

TEST_F(ProtectTest, OneNodeCannotProtectItself) {
  const std::string overrides = nodes_.Overrides(0, std::string("protect.scheme=xor\n") + kNoStore);
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = overrides.c_str();
  kedge_context* context = nullptr;
  EXPECT_EQ(kedge_init(&options, nullptr, &context), KEDGE_ERROR_FAILED_PRECONDITION);
  const std::string lenient = overrides + "protect.required=false\n";
  options.overrides = lenient.c_str();
  ASSERT_EQ(kedge_init(&options, nullptr, &context), KEDGE_OK) << kedge_error_message();
  EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
  EXPECT_EQ(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 5), KEDGE_ERROR_FAILED_PRECONDITION);
  EXPECT_KEDGE_OK(kedge_finalize(context, 0));
}

TEST_F(ProtectTest, AJobWithoutAgentsCannotBeProtected) {
  const std::string overrides = nodes_.Overrides(0, std::string("protect.scheme=xor\njob.mode=sync\n"));
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = overrides.c_str();
  kedge_context* context = nullptr;
  EXPECT_EQ(kedge_init(&options, nullptr, &context), KEDGE_ERROR_FAILED_PRECONDITION);
  EXPECT_THAT(kedge_error_message(), HasSubstr("job.mode is sync"));
  const std::string lenient = overrides + "protect.required=false\n";
  options.overrides = lenient.c_str();
  ASSERT_EQ(kedge_init(&options, nullptr, &context), KEDGE_OK) << kedge_error_message();
  EXPECT_KEDGE_OK(kedge_finalize(context, 0));
}

}  // namespace
}  // namespace kedge::testing
