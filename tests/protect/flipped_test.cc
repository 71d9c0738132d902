// A byte of an image flips on its node: before it is protected, before it is flushed, and later. Nobody takes it for what was
// captured, it costs no older version, and another node's copy takes its place where there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/protect/protect_fixture.h"

namespace kedge::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A byte of node 0's image flips after its capture. The image is large enough that its blocks' checksums are those of its
// capture: nobody reads it before the others do.
class FlippedTest : public ProtectTest {
 protected:
  void TakeOneThatFlips(const std::string& keys) {
    std::vector<uint64_t> large(2'200'000);
    Random(7).Fill(large.data(), large.size() * 8);
    std::atomic<bool> flipped{false};
    nodes_.Run(all_, keys + kNoStore + "protect.timeout=10min\n", [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = rank == 0 ? large : Content(rank, 1);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      // Nothing is read before all are there.
      for (int i = 0; rank > 1 && !flipped && i < 2000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
      if (rank != 0) return;
      EXPECT_TRUE(nodes_.FlipInPool(0, large));
      flipped = true;
      EXPECT_EQ(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 20), KEDGE_ERROR_CORRUPT);
      EXPECT_THAT(kedge_error_message(), AllOf(HasSubstr("region 0"), HasSubstr("checksum")));
    });
    EXPECT_THAT(nodes_.Log(0), HasSubstr("another node doubts the image of rank 0"));
    // Those that read none of the flipped blocks hear of it, too.
    for (const int node : {1, 2, 3}) {
      for (int i = 0; i < 1000 && nodes_.Log(node).find("has not reached") == std::string::npos; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      EXPECT_THAT(nodes_.Log(node), AllOf(HasSubstr("checksum"), HasSubstr("has not reached level node"))) << "node " << node;
    }
  }
};
class FlippedSchemeTest : public FlippedTest, public ::testing::WithParamInterface<Scheme> {};
INSTANTIATE_TEST_SUITE_P(Schemes, FlippedSchemeTest, ::testing::ValuesIn(kSchemes), NameOf);

TEST_P(FlippedSchemeTest, AByteThatFlipsAfterItsCaptureIsFoundBeforeItIsProtected) {
  TakeOneThatFlips(GetParam().keys);
}

TEST_F(FlippedTest, NobodyWaitsForAGroupThatHasGivenUp) {
  TakeOneThatFlips("protect.scheme=xor\nprotect.group=2\n");
}

// Images below 16 MiB are read when they are measured: their own node finds the byte, and counts the image no longer.
class FoundByItsOwnerTest : public ProtectTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Successor, FoundByItsOwnerTest, ::testing::Bool());

TEST_P(FoundByItsOwnerTest, ASmallImageThatFlipsIsAtNoLevelAndCostsNoOlderVersion) {
  const std::string keys = "protect.scheme=partner\nprotect.group=4\nschedule.node=2\nkeep.local=1\n" + std::string(kNoStore);
  const std::vector<int> places = {0, 0, 1, 2, 3};
  std::barrier together(5);
  const auto has_failed = [&] { return nodes_.Log(0).find("has not reached level node") != std::string::npos; };
  nodes_.Run(places, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
    Fill(&memory, rank, 2);
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_LOCAL, 60));
    together.arrive_and_wait();
    Fill(&memory, rank, 3);
    // It flips before its node has all of its images, so before any is measured; the other nodes take the version later.
    if (rank == 0) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 3, 0));
      EXPECT_TRUE(nodes_.FlipInPool(0, Content(0, 3)));
    }
    together.arrive_and_wait();
    if (rank == 1) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 3, 0));
      for (int i = 0; i < 2000 && !has_failed(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_TRUE(has_failed());
      if (GetParam()) {
        EXPECT_TRUE(nodes_.KillAgent(0));
      }
    }
    together.arrive_and_wait();
    if (rank > 1) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 3, 0));
    }
    together.arrive_and_wait();
    if (rank == 0) {
      EXPECT_EQ(kedge_wait(context, "p", 3, KEDGE_LEVEL_LOCAL, 60), KEDGE_ERROR_CORRUPT) << kedge_error_message();
      EXPECT_EQ(kedge_wait(context, "p", 3, KEDGE_LEVEL_NODE, 60), KEDGE_ERROR_CORRUPT) << kedge_error_message();
    }
    together.arrive_and_wait();
  });
  EXPECT_EQ(ExpectRestart(places, keys, 2), 0u);
}

// It is protected already, and not flushed yet, since the store is away: the flush finds the flipped byte, and goes on from what
// the other nodes give.
TEST_F(ProtectTest, ABitThatFlipsBeforeTheFlushIsMadeGoodByTheOtherNodes) {
  const std::string away = nodes_.Store() + ".away";
  std::barrier together(4);
  nodes_.Run(all_, kXorOfFour, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    if (rank == 0) std::filesystem::rename(nodes_.Store(), away);
    together.arrive_and_wait();
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
    together.arrive_and_wait();
    if (rank == 0) {
      EXPECT_TRUE(nodes_.FlipInPool(2, Content(2, 1)));
      std::filesystem::rename(away, nodes_.Store());
    }
    together.arrive_and_wait();
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_STORE, 60));
    EXPECT_KEDGE_OK(kedge_last_flush_error(context, nullptr, 0, nullptr));
  });
  EXPECT_NE(nodes_.Log(2).find("is here again"), std::string::npos);
  for (const int node : all_) nodes_.Lose(node);
  EXPECT_GT(ExpectRestart(all_, kXorOfFour, 1), 0u);
}

// The same before the version is at level NODE: one group has its copies already, and another one waits for a rank.
TEST_F(ProtectTest, ABitThatFlipsBeforeTheFlushIsMadeGoodByAPartnerThatHasItsCopy) {
  const std::string keys = "protect.scheme=partner\nprotect.group=2\n";
  const std::string away = nodes_.Store() + ".away";
  std::barrier together(4);
  const auto holds_copy = [&](int node) {
    for (const auto& entry : std::filesystem::directory_iterator(nodes_.RunFolder(node) + "/sets")) {
      if (entry.path().extension() != ".set") return true;
    }
    return false;
  };
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    if (rank == 0) std::filesystem::rename(nodes_.Store(), away);
    together.arrive_and_wait();
    if (rank != 3) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    }
    if (rank == 0) {
      // The groups are of nodes 0 and 2, and of 1 and 3.
      for (int i = 0; i < 2000 && !(holds_copy(0) && holds_copy(2)); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_TRUE(holds_copy(0) && holds_copy(2));
      EXPECT_TRUE(nodes_.FlipInPool(0, Content(0, 1)));
      std::filesystem::rename(away, nodes_.Store());
      for (int i = 0; i < 2000 && nodes_.Log(0).find("Another one is brought") == std::string::npos; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    together.arrive_and_wait();
    if (rank == 3) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    }
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_STORE, 60));
    EXPECT_KEDGE_OK(kedge_last_flush_error(context, nullptr, 0, nullptr));
  });
  EXPECT_THAT(nodes_.Log(0), HasSubstr("is here again"));
  for (const int node : all_) nodes_.Lose(node);
  EXPECT_GT(ExpectRestart(all_, keys, 1), 0u);
}

TEST_F(ProtectTest, AFlippedByteInItsOwnImageSendsARankToTheOtherNodes) {
  const std::string keys = std::string("protect.scheme=xor\nprotect.group=4\nschedule.node=1000\n") + kNoStore;
  Take(all_, keys, 1);
  ASSERT_TRUE(nodes_.FlipInPool(2, Content(2, 1)));
  // Its own copy is bad: the node's rank gets it from the others' redundancy, not a wrong byte.
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
}

// What nodes have told each other at a restart says nothing of a version that they have protected a moment later.
TEST_F(ProtectTest, AFlippedByteSendsARankToCopiesThatAreAMomentOld) {
  const std::string keys = std::string("protect.scheme=partner\nprotect.group=4\n") + kNoStore;
  std::barrier together(4);
  Take(all_, keys, 1);
  for (const int node : {1, 2}) nodes_.Lose(node);
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    int64_t version = -1;
    EXPECT_EQ(kedge_restart(context, "p", -1, &version), KEDGE_ERROR_LOST) << "all nodes are asked";
    Fill(&memory, rank, 2);
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_NODE, 60));
    together.arrive_and_wait();
    if (rank == 2) {
      EXPECT_TRUE(nodes_.FlipInPool(2, Content(2, 2)));
    }
    together.arrive_and_wait();
    EXPECT_KEDGE_OK(kedge_restart(context, "p", 2, &version));
    EXPECT_EQ(version, 2) << "rank " << rank;
    EXPECT_TRUE(memory == Content(rank, 2)) << "rank " << rank;
  });
  EXPECT_THAT(nodes_.Log(2), HasSubstr("version 2 (attempt 2, take 1) rank 2 is here again: from node n3"));
}

// An array that is cut into one part for each rank, whose words follow from their place in it and the version.
class DividedTest : public ProtectTest {
 protected:
  static constexpr int64_t kWords = 400'000;
  static std::vector<uint64_t> Part(int ranks, int rank, int64_t version) {
    std::vector<uint64_t> words;
    for (int64_t word = FirstOf(ranks, rank); word < FirstOf(ranks, rank + 1); ++word) {
      words.push_back(MixSeed(static_cast<uint64_t>(version), static_cast<uint64_t>(word)));
    }
    return words;
  }
  static void ProtectPart(kedge_context* context, int ranks, int rank, std::vector<uint64_t>* memory) {
    kedge_region_info info{};
    info.struct_size = sizeof info;
    info.name = "words";
    info.type = KEDGE_TYPE_UINT64;
    info.dimensions = 1;
    info.shape[0] = static_cast<int64_t>(memory->size());
    info.global_shape[0] = kWords;
    info.global_offset[0] = FirstOf(ranks, rank);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory->data(), memory->size(), 8, &info));
  }
  // Version 1 by four ranks.
  void TakeParts(const std::string& keys, const std::vector<kedge_level>& levels) {
    nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = Part(4, rank, 1);
      ProtectPart(context, 4, rank, &memory);
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
      for (const kedge_level level : levels) EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, level, 60));
    });
  }
  // Bytes that came from the store.
  uint64_t ExpectParts(const std::vector<int>& places, const std::string& keys) {
    std::atomic<uint64_t> from_store{0};
    const int ranks = static_cast<int>(places.size());
    nodes_.Run(places, keys, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory(Part(ranks, rank, 1).size());
      ProtectPart(context, ranks, rank, &memory);
      int64_t version = -1;
      EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
      EXPECT_EQ(version, 1);
      EXPECT_TRUE(memory == Part(ranks, rank, 1)) << "rank " << rank;
      kedge_statistics statistics{};
      statistics.struct_size = sizeof statistics;
      EXPECT_KEDGE_OK(kedge_get_statistics(context, &statistics));
      from_store += statistics.bytes_restored_store;
    });
    return from_store;
  }

 private:
  static int64_t FirstOf(int ranks, int rank) { return kWords * rank / ranks; }
};

TEST_F(DividedTest, AFlippedByteSendsAnotherNumberOfRanksToTheStore) {
  TakeParts("", {KEDGE_LEVEL_STORE});
  ASSERT_TRUE(nodes_.FlipInPool(2, Part(4, 2, 1)));
  EXPECT_GT(ExpectParts({0, 1, 2, 3, 2}, ""), 0u);
}

// Two ranks on the node at once, and each wants a part of the image that is bad.
TEST_F(DividedTest, AFlippedByteSendsAnotherNumberOfRanksToThePartner) {
  const std::string keys = std::string("protect.scheme=partner\nprotect.group=2\n") + kNoStore;
  TakeParts(keys, {KEDGE_LEVEL_NODE});
  ASSERT_TRUE(nodes_.FlipInPool(2, Part(4, 2, 1)));
  EXPECT_EQ(ExpectParts({0, 0, 1, 1, 2, 2, 3, 3}, keys), 0u);
}

TEST_F(DividedTest, WhatIsBadOnTheNodeAndInTheStoreComesFromThePartner) {
  const std::string keys = "protect.scheme=partner\nprotect.group=2\n";
  const std::vector<uint64_t> words = Part(4, 2, 1);
  TakeParts(keys, {KEDGE_LEVEL_NODE, KEDGE_LEVEL_STORE});
  ASSERT_TRUE(nodes_.FlipInPool(2, words));
  int flipped = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(nodes_.Store())) {
    if (!entry.is_regular_file()) continue;
    flipped += FlipBitIn(entry.path(), std::string(reinterpret_cast<const char*>(&words[words.size() / 8]), 64), 8);
  }
  ASSERT_GT(flipped, 0);
  ExpectParts({0, 1, 2}, keys);
}

// Rank 1 reads two images. Its node knows nothing of their set, and has the first when it rebuilds the second from it.
TEST_F(DividedTest, ALostNodeRebuildsItsImageFromOneThatItHasBrought) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  TakeParts(keys, {KEDGE_LEVEL_NODE});
  nodes_.Lose(3);
  ExpectParts({0, 3}, keys);
}

}  // namespace
}  // namespace kedge::testing
