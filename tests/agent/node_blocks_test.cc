// What the ranks of a node have in common is written once (reduce.deduplicate = node). Whoever of them fails, is late or is
// damaged, and whenever their agent dies: every version is read as it was captured, and nothing that nobody needs stays in the
// store.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <set>

#include "store/garbage.h"
#include "store/posix/posix_store.h"
#include "store/retention.h"
#include "store/sharing/image_object.h"
#include "store/verify.h"
#include "store/versions.h"
#include "tests/agent/several_ranks.h"
#include "tests/support/point_names.h"
#include "tests/support/steered_agents.h"

namespace kedge::testing {
namespace {

using std::chrono::seconds;
namespace files = std::filesystem;

constexpr uint32_t kBlockBytes = 4096;
// Less than a piece: the agent hears of it when it is whole, so that all of it may be borrowed. 12 of its 48 whole blocks and the
// short one are the rank's own.
constexpr size_t kSmallBytes = 200'000;
constexpr uint64_t kOwnBytes = 12 * kBlockBytes + kSmallBytes % kBlockBytes;
constexpr uint64_t kCommonBytes = kSmallBytes - kOwnBytes;
// Pieces of it are written before it is whole.
constexpr size_t kLargeBytes = 400'000;

JobKeys NodeKeys() {
  JobKeys keys;
  keys.reduce_deduplicate = Deduplication::kNode;
  keys.reduce_block_bytes = kBlockBytes;
  return keys;
}

class NodeBlocks : public SeveralRanks {
 protected:
  NodeBlocks() : SeveralRanks(kCommonName, kSmallBytes) {}
  StoredBytes BytesOf(int64_t version, uint32_t rank) { return StoredBytesOf(ReadImage(catalog(), At(version), rank).value()); }
  uint64_t OwnBytesOfAll(int64_t version) {
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < clients_.size(); ++rank) bytes += BytesOf(version, rank).own;
    return bytes;
  }
  std::string DataFolder(int64_t version) { return scenario_.store() + "/" + keys::ObjectsFolder(At(version)); }
  // Objects and temporaries there, of one rank or of all.
  std::vector<std::string> Data(int64_t version, const std::string& prefix = "r") {
    std::vector<std::string> found;
    std::error_code gone;
    for (const auto& entry : files::directory_iterator(DataFolder(version), gone)) {
      if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
    }
    return found;
  }
  // Until that much of the rank's object is written, which is not published yet; its path.
  std::string AwaitWritten(int64_t version, uint32_t rank, uint64_t bytes) {
    std::string path;
    EXPECT_TRUE(WaitFor(
        [&] {
          const std::vector<std::string> found = Data(version, "r" + std::to_string(rank) + ".b");
          std::error_code gone;
          if (found.size() == 1 && files::file_size(found.front(), gone) >= bytes) path = found.front();
          return !path.empty();
        },
        seconds(20)));
    EXPECT_TRUE(path.ends_with(".tmp")) << path;
    return path;
  }
  // Rank 1 has an image on its way that rank 0's has most of its blocks of, and which is not whole yet.
  void CaptureALender(int64_t version) {
    ASSERT_TRUE(IsOk(client(1).CaptureButEnd(At(version), kLargeBytes)));
    AwaitWritten(version, 1, kLargeBytes / kBlockBytes * kBlockBytes);
    ASSERT_TRUE(IsOk(client(0).Capture(At(version), kSmallBytes)));
    AwaitWritten(version, 0, kOwnBytes);
  }
};

TEST_F(NodeBlocks, AreWrittenOnce) {
  Attach(3, NodeKeys());
  for (int64_t version = 1; version <= 3; ++version) {
    Take(version);
    if (HasFatalFailure()) return;
    EXPECT_EQ(OwnBytesOfAll(version), kCommonBytes + 3 * kOwnBytes);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const StoredBytes bytes = BytesOf(version, rank);
      EXPECT_EQ(bytes.own + bytes.borrowed, kSmallBytes);
      EXPECT_TRUE(IsOk(client(rank).CheckLocal(At(version), kSmallBytes)));
    }
    EXPECT_TRUE(InspectGeneration(catalog(), At(version))->references.empty()) << "within one generation";
  }
  EXPECT_TRUE(WaitFor([&] { return BytesIn(scenario_.store()) < 2 * (kCommonBytes + 4 * kOwnBytes); }, seconds(10)))
      << BytesIn(scenario_.store());
}

TEST_F(NodeBlocks, AreWrittenOnceWhereTheyAreCompressedAndCompared) {
  JobKeys keys = NodeKeys();
  keys.reduce_compress = Feature::kOn;
  keys.reduce_verify = true;
  Attach(2, keys);
  Take(1);
  EXPECT_EQ(OwnBytesOfAll(1), kCommonBytes + 2 * kOwnBytes);
  EXPECT_LT(BytesOf(1, 0).stored + BytesOf(1, 1).stored, OwnBytesOfAll(1) * 9 / 10);
}

TEST_F(NodeBlocks, AreNoMatterBetweenNames) {
  Attach(1, NodeKeys());
  Take(1);
  const Generation other = client(0).GenerationOf("other", 1);
  ASSERT_TRUE(IsOk(client(0).Capture(other, kSmallBytes)));
  ASSERT_TRUE(IsOk(client(0).Wait(other, Level::kStore)->failure));
  EXPECT_EQ(StoredBytesOf(ReadImage(catalog(), other, 0).value()).own, kSmallBytes);
}

// Images of several versions lie in each other's objects, older versions go, and what is needed of them stays.
TEST_F(NodeBlocks, AreSharedWithTheVersionBefore) {
  JobKeys keys = NodeKeys();
  keys.reduce_incremental = Feature::kOn;
  Attach(3, keys);
  uint64_t common_bytes = 0;
  for (int64_t version = 1; version <= 15; ++version) {
    Take(version);
    if (HasFatalFailure()) return;
    const uint64_t own_bytes = OwnBytesOfAll(version);
    EXPECT_GE(own_bytes, 3 * kOwnBytes);
    if (version > 1) common_bytes += own_bytes - 3 * kOwnBytes;
    EXPECT_LE(InspectGeneration(catalog(), At(version))->references.size(), 8u);
  }
  // Whoever is first lends. A rank that has lent few has written mostly what nobody uses after that version, so that the one
  // after the next writes these few again; never does the next.
  EXPECT_LE(common_bytes, 7 * kCommonBytes);
  // The two that are kept, and the one before, whose objects stay where these lean on it. That depends on who came first.
  EXPECT_TRUE(WaitFor([&] { return BytesIn(scenario_.store()) < 3 * (kCommonBytes + 5 * kOwnBytes); }, seconds(10)))
      << BytesIn(scenario_.store());
  for (const int64_t version : {14, 15}) EXPECT_TRUE(VerifyVersion(catalog(), At(version), {})->problems.empty());
  EXPECT_TRUE(CollectGarbage(catalog(), {})->problems.empty());
  // By hand the one before goes, too.
  ASSERT_TRUE(IsOk(WithdrawVersion(catalog(), At(14)).status()));
  EXPECT_TRUE(VerifyVersion(catalog(), At(15), {})->problems.empty());
  Take(16);
}

TEST_F(NodeBlocks, ARankThatIsLateStandsAlone) {
  Attach(2, NodeKeys());
  ASSERT_TRUE(IsOk(client(1).Capture(At(1), kSmallBytes)));
  ASSERT_TRUE(WaitFor([&] { return !Data(1).empty() && !Data(1).front().ends_with(".tmp"); }, seconds(20)));
  ASSERT_TRUE(IsOk(client(0).Capture(At(1), kSmallBytes)));
  for (const uint32_t rank : {0u, 1u}) ExpectStored(1, rank);
  EXPECT_EQ(OwnBytesOfAll(1), 2 * kSmallBytes);
}

// Its object is gone when it is to be published: both are written anew, and the one that had its blocks in there stands alone.
TEST_F(NodeBlocks, OfALenderThatFailsAreWrittenByTheOthers) {
  Attach(2, NodeKeys());
  CaptureALender(1);
  if (HasFatalFailure()) return;
  files::remove(AwaitWritten(1, 1, 1));
  ASSERT_TRUE(IsOk(client(1).SendEnd()));
  ExpectStored(1, 0);
  ExpectStored(1, 1, kLargeBytes);
  EXPECT_EQ(BytesOf(1, 0).own, kSmallBytes);
  EXPECT_EQ(Data(1).size(), 2u) << "what was published first and is named by no part has gone";
  EXPECT_NE(client(0).AgentStatus()->find("\"flush_retries\":1,\"flush_failures\":0,"), std::string::npos)
      << "the lender's alone: " << *client(0).AgentStatus();
}

TEST_F(NodeBlocks, WithoutFailuresAreInTheLendersObject) {
  Attach(2, NodeKeys());
  CaptureALender(1);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(IsOk(client(1).SendEnd()));
  ExpectStored(1, 0);
  ExpectStored(1, 1, kLargeBytes);
  EXPECT_EQ(BytesOf(1, 0).own, kOwnBytes);
  EXPECT_EQ(BytesOf(1, 0).borrowed, kCommonBytes);
}

// An agent whose calls on the store fail as the test says.
class NodeBlocksWithFaults : public NodeBlocks {
 protected:
  // Those on the objects of rank 1.
  void Fail(os::testing::CallSet calls) { agents_.Fail("/data/r1.", calls, EIO); }
  uint64_t Retries() {
    const std::string status = client(0).AgentStatus().value(), key = "\"flush_retries\":";
    return std::stoull(status.substr(status.find(key) + key.size()));
  }

  const SteeredAgents agents_{scenario_.path() + "/steering"};
};

// As often as it is tried: the other's image gets to the store all the same, and the version is whole once the lender's does.
TEST_F(NodeBlocksWithFaults, OfALenderThatFailsForGoodAreWrittenByTheOthers) {
  Attach(2, NodeKeys());
  CaptureALender(1);
  if (HasFatalFailure()) return;
  Fail(os::testing::CallsOf(os::testing::Call::kFsync, os::testing::Call::kFdatasync));
  ASSERT_TRUE(IsOk(client(1).SendEnd()));
  ASSERT_TRUE(IsOk(client(1).NextFailure(seconds(60))));
  ASSERT_TRUE(WaitFor([&] { return ReadPublishedImage(catalog(), At(1), 0).ok(); }, seconds(20)));
  EXPECT_EQ(StoredBytesOf(ReadPublishedImage(catalog(), At(1), 0).value()).own, kSmallBytes);
  agents_.Mend();
  const auto drained = client(0).Drain();
  ASSERT_TRUE(IsOk(drained));
  EXPECT_TRUE(IsOk(drained->failure));
  ExpectStored(1, 0);
  ExpectStored(1, 1, kLargeBytes);
}

// What it lends lies elsewhere then; nobody else is written again for that.
TEST_F(NodeBlocksWithFaults, OfALenderThatIsWrittenAgainAreFoundWhereTheyLieThen) {
  Attach(2, NodeKeys());
  Fail(os::testing::CallsOf(os::testing::Call::kPwrite));
  ASSERT_TRUE(IsOk(client(1).CaptureButEnd(At(1), kLargeBytes)));
  ASSERT_TRUE(WaitFor([&] { return Retries() > 0; }, seconds(20)));
  agents_.Mend();
  ASSERT_TRUE(IsOk(client(0).Capture(At(1), kSmallBytes)));
  AwaitWritten(1, 0, kOwnBytes);
  const uint64_t retries = Retries();
  ASSERT_TRUE(IsOk(client(1).SendEnd()));
  ExpectStored(1, 0);
  ExpectStored(1, 1, kLargeBytes);
  EXPECT_EQ(BytesOf(1, 0).borrowed, kCommonBytes);
  EXPECT_EQ(Retries(), retries);
}

// Its bytes were not those that it had captured, and there are no others.
TEST_F(NodeBlocks, OfALenderThatIsDamagedAreWrittenByTheOthers) {
  Attach(2, NodeKeys());
  client(1).FlipInNextCapture(100);
  CaptureALender(1);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(IsOk(client(1).SendEnd()));
  ASSERT_TRUE(WaitFor([&] { return ReadPublishedImage(catalog(), At(1), 0).ok(); }, seconds(20)));
  EXPECT_EQ(StoredBytesOf(ReadPublishedImage(catalog(), At(1), 0).value()).own, kSmallBytes);
  EXPECT_FALSE(ReadPublishedImage(catalog(), At(1), 1).ok());
  // The next version has all of it.
  Take(2);
}

// The store is away while what is written is to be published.
TEST_F(NodeBlocks, WaitForTheStoreWithTheirLender) {
  Attach(2, NodeKeys());
  CaptureALender(1);
  if (HasFatalFailure()) return;
  const std::string away = scenario_.store() + ".away";
  files::rename(scenario_.store(), away);
  ASSERT_TRUE(IsOk(client(1).SendEnd()));
  EXPECT_EQ(client(1).Wait(At(1), Level::kStore, seconds(1))->failure.code(), Code::kTimeout);
  files::rename(away, scenario_.store());
  ExpectStored(1, 0);
  ExpectStored(1, 1, kLargeBytes);
  EXPECT_EQ(BytesOf(1, 0).borrowed, kCommonBytes);
}

TEST_F(NodeBlocks, ABitThatFlipsInOneIsToldOfAllThatHaveIt) {
  Attach(3, NodeKeys());
  Take(1);
  Take(2);
  if (HasFatalFailure()) return;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const StoredImage image = ReadImage(catalog(), At(2), rank).value();
    const std::vector<BlockRun>& runs = image.map->runs;
    const auto run = std::find_if(runs.begin(), runs.end(), [](const BlockRun& one) { return one.object >= kSharedBlocks; });
    if (run == runs.end()) continue;
    const std::string& key = image.map->objects[run->object - kSharedBlocks].key;
    const std::string path = scenario_.store() + "/" + keys::JobFolder("job") + "/" + key;
    files::permissions(path, files::perms::owner_all);
    FlipBit(path, run->offset + 100);
    break;
  }
  const VerifyReport report = VerifyVersion(catalog(), At(2), {}).value();
  std::set<uint32_t> bad;
  for (const VerifyProblem& problem : report.problems) bad.insert(problem.rank);
  EXPECT_GE(bad.size(), 2u);
  EXPECT_TRUE(VerifyVersion(catalog(), At(1), {})->problems.empty());
}

class AgentKilledWithNodeBlocks : public ::testing::TestWithParam<std::string> {};

TEST_P(AgentKilledWithNodeBlocks, ItsSuccessorGoesOn) {
  JobKeys keys = NodeKeys();
  keys.reduce_incremental = Feature::kOn;
  ExpectASuccessorGoesOn(GetParam(), keys, kCommonName, kSmallBytes);
}

INSTANTIATE_TEST_SUITE_P(Points, AgentKilledWithNodeBlocks,
                         ::testing::Values("flush-base-claimed:2", "flush-base-claimed:5", "piece-written:1", "piece-written:2",
                                           "piece-written:5", "publish-records-written:1", "publish-records-written:2",
                                           "publish-done:1", "publish-done:2", "publish-saved:1", "publish-saved:3",
                                           "retention-done:3"),
                         NameOfPoint<std::string>);

}  // namespace
}  // namespace kedge::testing
