// What several nodes of a job have is written by one of them (reduce.deduplicate = job). Whoever of them fails or is late: each
// version is complete, and is read as it was captured.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>

#include "store/garbage.h"
#include "store/keys.h"
#include "store/posix/posix_store.h"
#include "store/publish.h"
#include "store/retention.h"
#include "store/verify.h"
#include "store/versions.h"
#include "tests/gather/leaders_fixture.h"
#include "tests/support/point_names.h"
#include "tests/support/steered_agents.h"

namespace kedge::testing {
namespace {

using namespace std::chrono_literals;
namespace files = std::filesystem;

constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kWordsOfBlock = kBlockBytes / 8;
// Of each rank: blocks that all have, that it has in common with one other, and that are its own.
constexpr uint64_t kOfAll = 128, kOfTwo = 64, kOwn = 64;
constexpr uint64_t kOfRank = kOfAll + kOfTwo + kOwn;

constexpr char kJob[] = "reduce.deduplicate=job\nreduce.block=4KiB\n";

// Some blocks of each kind stay from version to version, and others do not.
void FillCommon(std::vector<uint64_t>* memory, int rank, int64_t version) {
  memory->resize(kOfRank * kWordsOfBlock);
  for (uint64_t block = 0; block < kOfRank; ++block) {
    const uint64_t whose = block < kOfAll            ? 1000
                           : block < kOfAll + kOfTwo ? 2000 + static_cast<uint64_t>(rank / 2)
                                                     : 3000 + static_cast<uint64_t>(rank);
    const uint64_t of_version = block % 4 == 0 ? 0 : static_cast<uint64_t>(version);
    Random(MixSeed(MixSeed(whose, of_version), block)).Fill(&(*memory)[block * kWordsOfBlock], kBlockBytes);
  }
}

std::vector<uint64_t> CommonContent(int rank, int64_t version) {
  std::vector<uint64_t> memory;
  FillCommon(&memory, rank, version);
  return memory;
}

class CommonBlocksTest : public LeadersTest {
 protected:
  // What lies in the version's objects, by their names.
  std::map<std::string, uint64_t> Data(const Generation& generation) const {
    std::map<std::string, uint64_t> found;
    std::error_code gone;
    for (const auto& entry : files::directory_iterator(nodes_.Store() + "/" + keys::ObjectsFolder(generation), gone)) {
      found[entry.path().filename()] = files::file_size(entry.path(), gone);
    }
    return found;
  }
  uint64_t StoredBlocks(int64_t version) const {
    uint64_t bytes = 0;
    for (const auto& [name, size] : Data(At(version))) bytes += size;
    return bytes / kBlockBytes;
  }
  std::vector<uint64_t> CommonObjects(int64_t version) const { return CommonObjects(At(version)); }
  std::vector<uint64_t> CommonObjects(const Generation& generation) const {
    std::vector<uint64_t> sizes;
    for (const auto& [name, size] : Data(generation)) {
      if (keys::IsCommonObject("data/" + name)) sizes.push_back(size);
    }
    return sizes;
  }
  void TakeCommon(const std::vector<int>& places, const std::string& keys, int64_t last, int64_t first = 1) {
    nodes_.Run(places, keys, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = CommonContent(rank, 0);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      for (int64_t version = first; version <= last; ++version) {
        FillCommon(&memory, rank, version);
        EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
        EXPECT_KEDGE_OK(kedge_wait(context, "p", version, KEDGE_LEVEL_STORE, 60));
      }
    });
  }
  void ExpectSound(int64_t version) const { ExpectSound(At(version)); }
  void ExpectSound(const Generation& generation) const {
    EXPECT_THAT(VerifyVersion(catalog(), generation, {}).value().problems, ::testing::IsEmpty());
  }
  // From the store alone: nothing is left of the nodes.
  void ExpectStored(const std::vector<int>& places, int64_t expected) {
    for (int node = 0; node < 4; ++node) {
      if (nodes_.KillAgent(node)) nodes_.DeleteFiles(node);
    }
    nodes_.Run(places, kJob, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = CommonContent(rank, 0);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      int64_t version = -1;
      EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
      EXPECT_EQ(version, expected) << "rank " << rank;
      EXPECT_TRUE(memory == CommonContent(rank, expected)) << "rank " << rank;
    });
  }
};

class CommonBlocksOf : public CommonBlocksTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Layouts, CommonBlocksOf, ::testing::Values("", "store.layout=node\n", "reduce.compress=on\n"));

// Of all but what one has alone: 256 blocks of 1024 that are the ranks' own, 128 of all, and 64 of each of two pairs.
TEST_P(CommonBlocksOf, AreWrittenOnce) {
  constexpr int64_t kLast = 5;
  TakeCommon(all_, std::string(kJob) + "keep.versions=5\n" + GetParam(), kLast);
  constexpr uint64_t kDistinct = kOfAll + 2 * kOfTwo + 4 * kOwn;
  int64_t reduced = 0;
  for (int64_t version = 1; version <= kLast; ++version) {
    ExpectSound(version);
    // On a busy machine some agreements come too late, and are not waited for.
    const std::vector<uint64_t> shares = CommonObjects(version);
    if (StoredBlocks(version) > kDistinct + 32) continue;
    ++reduced;
    ASSERT_EQ(shares.size(), 4u);
    EXPECT_LE(*std::ranges::max_element(shares), 1.1 * (kOfAll + 2 * kOfTwo) / 4 * kBlockBytes) << "the work is shared alike";
  }
  EXPECT_GE(reduced, 1);
  ExpectStored(all_, kLast);
}

// Several ranks of a node have one voice, and lend each other what no other node has.
TEST_F(CommonBlocksTest, OfNodesWithSeveralRanksAreWrittenOnce) {
  const std::vector<int> places = {0, 0, 1, 1, 2, 2, 3, 3};
  TakeCommon(places, kJob, 3);
  constexpr uint64_t kDistinct = kOfAll + 4 * kOfTwo + 8 * kOwn;
  EXPECT_LE(std::min(StoredBlocks(2), StoredBlocks(3)), kDistinct + 64);
  ExpectSound(3);
  ExpectStored(places, 3);
}

TEST_F(CommonBlocksTest, AJobOnOneNodeSharesAsItsRanksDo) {
  const std::vector<int> places = {0, 0, 0, 0};
  TakeCommon(places, kJob, 2);
  EXPECT_THAT(CommonObjects(2), ::testing::IsEmpty());
  EXPECT_LE(StoredBlocks(2), kOfAll + 2 * kOfTwo + 4 * kOwn + 64);
  ExpectStored(places, 2);
}

// Bytes of another node are not at hand.
TEST_F(CommonBlocksTest, AreNotLookedForWhereBytesAreCompared) {
  const std::vector<int> places = {0, 0, 1, 1};
  TakeCommon(places, std::string(kJob) + "reduce.verify=on\n", 2);
  EXPECT_THAT(CommonObjects(2), ::testing::IsEmpty());
  EXPECT_LE(StoredBlocks(2), 2 * (kOfAll + kOfTwo) + 4 * kOwn + 64) << "of each node once";
  ExpectStored(places, 2);
}

// No more blocks than those are agreed on.
TEST_F(CommonBlocksTest, AreAsManyAsAreWanted) {
  TakeCommon(all_, std::string(kJob) + "reduce.common=16\n", 3);
  uint64_t most = 0;
  for (const int64_t version : {2, 3}) {
    uint64_t bytes = 0;
    for (const uint64_t share : CommonObjects(version)) bytes += share;
    EXPECT_LE(bytes, 16 * kBlockBytes);
    most = std::max(most, bytes);
  }
  EXPECT_GE(most, 8 * kBlockBytes) << "what a node puts forward may be its own alone";
  ExpectStored(all_, 3);
}

// Older versions go, and what is needed of them stays.
TEST_F(CommonBlocksTest, AreSharedWithTheVersionBefore) {
  const std::string keys = std::string(kJob) + "reduce.incremental=on\nreduce.compress=on\n";
  constexpr int64_t kLast = 12;
  TakeCommon(all_, keys, kLast);
  for (const int64_t version : {kLast - 1, kLast}) ExpectSound(version);
  EXPECT_LE(std::min(StoredBlocks(kLast - 1), StoredBlocks(kLast)), (kOfAll + 2 * kOfTwo + 4 * kOwn) * 3 / 4 + 32)
      << "a quarter stays as it was";
  EXPECT_THAT(CollectGarbage(catalog(), {})->problems, ::testing::IsEmpty());
  ASSERT_EQ(WithdrawVersion(catalog(), At(kLast - 1)).status().code(), Code::kOk);
  ExpectSound(kLast);
  ExpectStored(all_, kLast);
}

// ---- Faults. The version gets to the store all the same: what nobody else has written a node writes itself. ----

class CommonBlocksKilled : public CommonBlocksTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(At, CommonBlocksKilled,
                         ::testing::Values("common-begun", "common-written", "common-published", "ship-decided", "image-end-done",
                                           "piece-written", "publish-records-written", "publish-done", "publish-saved"),
                         [](const auto& point) { return AsTestName(point.param); });

TEST_P(CommonBlocksKilled, TheVersionIsComplete) {
  nodes_.StartAgent(1, {{"KEDGE_TEST_KILL_POINT", GetParam()}});
  TakeCommon(all_, kJob, 2);
  EXPECT_TRUE(nodes_.AgentWasKilled());
  for (const int64_t version : {1, 2}) ExpectSound(version);
  ExpectStored(all_, 2);
}

TEST_F(CommonBlocksTest, ANodeThatCannotWriteHoldsUpTheOthersForAWhile) {
  const SteeredAgents agents(nodes_.RunFolder(0) + ".steering");
  TakeCommon(all_, kJob, 1);
  agents.Fail("/data/s3.", os::testing::CallsOf(os::testing::Call::kPwrite), EIO);
  const auto begin = std::chrono::steady_clock::now();
  TakeCommon(all_, kJob, 2, 2);
  const Generation second = {catalog().id(), "nodes", "p", 2, 2, 1};
  EXPECT_EQ(CommonObjects(second).size(), 3u) << "all but that node's";
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 5s) << "this test shows nothing";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 40s);
  ExpectSound(second);
  ExpectStored(all_, 2);
}

TEST_F(CommonBlocksTest, ANodeThatStandsStillIsNotWaitedForLong) {
  TakeCommon(all_, kJob, 1);
  const auto begin = std::chrono::steady_clock::now();
  nodes_.Run(all_, kJob, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = CommonContent(rank, 2);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    if (rank == 3) nodes_.Pause(3, 8s);
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_STORE, 60));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 40s);
  ExpectStored(all_, 2);
}

TEST_F(CommonBlocksTest, ARankThatDoesNotTakeTheVersionHoldsUpNoOther) {
  TakeWithoutTheThird(kJob, [](int rank) { return CommonContent(rank, 1); });
}

TEST_F(CommonBlocksTest, AnObjectThatIsGoneIsFoundBeforeTheVersionIsComplete) {
  TakeCommon(all_, std::string(kJob) + "keep.versions=9\n", 2);
  const int64_t reduced = CommonObjects(2).empty() ? 1 : 2;
  ASSERT_FALSE(CommonObjects(reduced).empty());
  const std::string folder = nodes_.Store() + "/" + keys::ObjectsFolder(At(reduced)) + "/";
  for (const auto& [name, size] : Data(At(reduced))) {
    if (keys::IsCommonObject("data/" + name)) files::remove(folder + name);
  }
  EXPECT_THAT(VerifyVersion(catalog(), At(reduced), {}).value().problems, ::testing::Not(::testing::IsEmpty()));
  files::remove(nodes_.Store() + "/" + keys::VersionKey(At(reduced)));
  EXPECT_EQ(FinishVersion(catalog(), At(reduced)).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace kedge::testing
