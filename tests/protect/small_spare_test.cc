// A node whose tiers have no room for an image that a rank of it restarts from: the image is read from the nodes that have it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/protect/protect_fixture.h"

namespace kedge::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kTwoLosses[] = "protect.scheme=rs\nprotect.losses=2\nprotect.group=4\n";
constexpr char kSmallPool[] = "4MiB";  // one slot
constexpr int kSpare = 1;
constexpr int kRegions = 3;

// Three regions in five chunks, over more than one window; about 17 MiB.
class SmallSpareTest : public ProtectTest {
 protected:
  using Regions = std::vector<std::vector<uint64_t>>;
  static Regions Content(int rank, int64_t version) {
    Regions regions;
    for (int region = 0; region < kRegions; ++region) {
      regions.emplace_back(700'001 + static_cast<size_t>(region) * 10'007);
      Random(MixSeed(MixSeed(static_cast<uint64_t>(version), static_cast<uint64_t>(rank)), static_cast<uint64_t>(region)))
          .Fill(regions.back().data(), regions.back().size() * 8);
    }
    return regions;
  }
  static void Protect(kedge_context* context, Regions* regions) {
    for (int region = 0; region < kRegions; ++region) {
      std::vector<uint64_t>& words = (*regions)[static_cast<size_t>(region)];
      EXPECT_KEDGE_OK(kedge_protect(context, region, words.data(), words.size(), 8, nullptr));
    }
  }
  void Take(const std::string& keys, kedge_level level = KEDGE_LEVEL_NODE, const std::vector<int>& places = {0, 1, 2, 3}) const {
    nodes_.Run(places, keys, [&](kedge_context* context, int rank) {
      Regions regions = Content(rank, 1);
      Protect(context, &regions);
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
      EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, level, 60));
    });
  }
  // A launch in which the spare has its small pool.
  void Launch(const std::string& keys, const std::function<void(kedge_context*, int rank, Regions*)>& body,
              const std::vector<int>& places = {0, 1, 2, 3}) const {
    const auto overrides = [&](int rank) {
      const int node = places[static_cast<size_t>(rank)];
      return nodes_.Overrides(node, keys) + (node == kSpare ? SmallPool() : std::string());
    };
    ThreadRanks(static_cast<int>(places.size())).Run(overrides, [&](kedge_context* context, int rank) {
      Regions regions = Content(rank, 0);
      Protect(context, &regions);
      body(context, rank, &regions);
    });
  }
  static std::string SmallPool() { return std::string("pool.size=") + kSmallPool + "\n"; }
  // Everything, of version 1; bytes that came from the store.
  static uint64_t ExpectRestored(kedge_context* context, int rank, Regions* regions) {
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
    EXPECT_EQ(version, 1);
    EXPECT_TRUE(*regions == Content(rank, 1)) << "rank " << rank;
    kedge_statistics statistics{};
    statistics.struct_size = sizeof statistics;
    EXPECT_KEDGE_OK(kedge_get_statistics(context, &statistics));
    EXPECT_EQ(statistics.corrupt_copies, 0u) << "rank " << rank;
    return statistics.bytes_restored_store;
  }
};

class SmallSpareByScheme : public SmallSpareTest, public ::testing::WithParamInterface<Scheme> {};
INSTANTIATE_TEST_SUITE_P(Every, SmallSpareByScheme, ::testing::ValuesIn(kSchemes), NameOf);

TEST_P(SmallSpareByScheme, RestartsFromTheOtherNodes) {
  const std::string keys = GetParam().keys + std::string(kNoStore);
  Take(keys);
  nodes_.Lose(kSpare);
  Launch(keys, [](kedge_context* context, int rank, Regions* regions) {
    EXPECT_EQ(ExpectRestored(context, rank, regions), 0u) << "rank " << rank;
    // Once more, and again: a window that is not closed would be one too many.
    for (int again = 0; again < 3; ++again) ExpectRestored(context, rank, regions);
  });
  EXPECT_THAT(nodes_.Log(kSpare), HasSubstr("was shown for want of room"));
  // Nothing was used up by it.
  Launch(keys, [](kedge_context* context, int rank, Regions* regions) { ExpectRestored(context, rank, regions); });
}

TEST_F(SmallSpareTest, SeveralRanksOfItRestartAtOnce) {
  const std::string keys = std::string(kXorOfFour) + kNoStore + "pool.size=96MiB\n";
  const std::vector<int> places = {0, 1, 2, 3, 1};
  Take(keys, KEDGE_LEVEL_NODE, places);
  nodes_.Lose(kSpare);
  Launch(
      keys, [](kedge_context* context, int rank, Regions* regions) { ExpectRestored(context, rank, regions); }, places);
}

TEST_F(SmallSpareTest, TheOtherNodesComeBeforeTheStore) {
  Take(kXorOfFour, KEDGE_LEVEL_STORE);
  // The store may have it first.
  for (int node = 0; node < 4; ++node) {
    for (int i = 0; i < 200 && nodes_.Log(node).find("survives the loss of a node") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_THAT(nodes_.Log(node), HasSubstr("survives the loss of a node"));
  }
  nodes_.Lose(kSpare);
  Launch(kXorOfFour, [](kedge_context* context, int rank, Regions* regions) {
    EXPECT_EQ(ExpectRestored(context, rank, regions), 0u) << "rank " << rank;
  });
}

// Two nodes are lost where one may be: the store has it, whatever room there is.
TEST_F(SmallSpareTest, WhatTheOthersDoNotHaveComesFromTheStore) {
  Take(kXorOfFour, KEDGE_LEVEL_STORE);
  nodes_.Lose(kSpare);
  nodes_.Lose(2);
  Launch(kXorOfFour, [](kedge_context* context, int rank, Regions* regions) {
    EXPECT_EQ(ExpectRestored(context, rank, regions) > 0, rank == 1 || rank == 2) << "rank " << rank;
  });
}

TEST_F(SmallSpareTest, PartsAreReadInAnyOrderWhileAnotherNodeIsLost) {
  const std::string keys = std::string(kTwoLosses) + kNoStore;
  Take(keys);
  nodes_.Lose(kSpare);
  Launch(keys, [&](kedge_context* context, int rank, Regions* regions) {
    EXPECT_KEDGE_OK(kedge_restart_begin(context, "p", 1));
    for (const int id : {2, 0, 1}) {
      EXPECT_KEDGE_OK(kedge_restart_part(context, KEDGE_SOME, &id, 1)) << ", rank " << rank << ", region " << id;
      if (rank == kSpare && id == 0) nodes_.Lose(2);
    }
    EXPECT_TRUE(*regions == Content(rank, 1)) << "rank " << rank;
    EXPECT_KEDGE_OK(kedge_restart_end(context, 1));
  });
}

// Nobody is left who has it, in mid-restart and for ever: an application that hears NOT_FOUND would begin anew.
TEST_F(SmallSpareTest, WhatStopsInTheMiddleIsNotTakenForNoVersion) {
  const std::string keys = kSchemes[0].keys + std::string(kNoStore);
  Take(keys);
  nodes_.Lose(kSpare);
  Launch(keys, [&](kedge_context* context, int rank, Regions* regions) {
    EXPECT_KEDGE_OK(kedge_restart_begin(context, "p", 1));
    for (const int id : {0, 2, 1}) {
      const int code = kedge_restart_part(context, KEDGE_SOME, &id, 1);
      EXPECT_EQ(code == KEDGE_OK, rank != kSpare || id == 0) << "rank " << rank << ": " << kedge_error_message();
      EXPECT_NE(code, KEDGE_ERROR_NOT_FOUND) << kedge_error_message();
      for (const int node : {0, 2, 3}) {
        if (rank == kSpare && id == 0) nodes_.Lose(node);
      }
    }
    EXPECT_TRUE(rank == kSpare || *regions == Content(rank, 1)) << "rank " << rank;
    kedge_restart_end(context, rank != kSpare);
  });
}

// Bytes that have changed since are found where they are, and by whoever rebuilds with them. The node that they lie on has no
// room for another copy.
TEST_F(SmallSpareTest, DamagedBlocksAreMadeFromOthers) {
  const std::string keys = std::string(kTwoLosses) + kNoStore + "pool.size=48MiB\n";
  Take(keys);
  nodes_.Lose(kSpare);
  ASSERT_TRUE(nodes_.FlipInPool(3, Content(3, 1).front()));
  Launch(keys, [](kedge_context* context, int rank, Regions* regions) {
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
    EXPECT_TRUE(version == 1 && *regions == Content(rank, 1)) << "rank " << rank;
  });
  for (const int node : {kSpare, 3}) EXPECT_THAT(nodes_.Log(node), HasSubstr("was shown for want of room"));
}

// Its agent dies when it has shown the first part: the next one goes on.
TEST_F(SmallSpareTest, TheSuccessorOfItsAgentGoesOn) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  Take(keys);
  nodes_.Lose(kSpare);
  nodes_.StartAgent(kSpare, {{"KEDGE_TEST_KILL_POINT", "window-shown"}}, kSmallPool);
  Launch(keys, [](kedge_context* context, int rank, Regions* regions) { ExpectRestored(context, rank, regions); });
  EXPECT_TRUE(nodes_.AgentWasKilled());
}

}  // namespace
}  // namespace kedge::testing
