// One object for all images that a node writes of a version (store.layout = node). Whoever of the ranks fails, is late or is
// damaged, and whenever their agent dies: each image is read as it was captured, and nobody else's suffers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "store/copy.h"
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

// Several chunks of several pieces, the last of them short.
constexpr size_t kLaidOutBytes = (2 << 20) + 300'007;
constexpr uint64_t kLaidOutRoom = AlignChunkOffset(kLaidOutBytes);

class NodeLayout : public SeveralRanks {
 protected:
  NodeLayout() : SeveralRanks("ckpt", kLaidOutBytes) {}
  void Attach(uint32_t ranks, JobKeys keys = {}) {
    keys.store_layout = StoreLayout::kNode;
    SeveralRanks::Attach(ranks, keys, {{"pool.size", "64MiB"}});
  }
  StoredImage Image(int64_t version, uint32_t rank) { return ReadImage(catalog(), At(version), rank).value(); }
  // The names of objects and temporaries.
  std::vector<std::string> Data(int64_t version) {
    std::vector<std::string> found;
    std::error_code gone;
    for (const auto& entry : files::directory_iterator(scenario_.store() + "/" + keys::ObjectsFolder(At(version)), gone)) {
      found.push_back(entry.path().filename());
    }
    return found;
  }
  // One object of all its images.
  void ExpectOneObject(int64_t version) {
    const std::vector<std::string> data = Data(version);
    ASSERT_EQ(data.size(), 1u);
    for (uint32_t rank = 0; rank < clients_.size(); ++rank) EXPECT_EQ(Image(version, rank).entry.object, "data/" + data.front());
    EXPECT_TRUE(keys::IsNodeObject("data/" + data.front()));
  }
};

TEST_F(NodeLayout, HasEachByteOfAllImagesOnceInOneObject) {
  Attach(3);
  for (int64_t version = 1; version <= 2; ++version) {
    Take(version);
    if (HasFatalFailure()) return;
    ExpectOneObject(version);
    std::vector<std::pair<uint64_t, uint64_t>> taken;  // begins and ends
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const StoredImage image = Image(version, rank);
      EXPECT_FALSE(image.map->has_fingerprints) << "nobody looked for equal blocks";
      EXPECT_EQ(StoredBytesOf(image).own, kLaidOutBytes);
      const BlockLayout layout(image.record, image.map->block_bytes);
      uint64_t block = 0;
      for (const BlockRun& run : image.map->runs) {
        EXPECT_EQ(run.object, kOwnBlocks);
        EXPECT_EQ(run.offset % kChunkAlignment, 0u);
        block += run.blocks;
        taken.emplace_back(run.offset, run.offset + (run.blocks - 1) * layout.block_bytes() + layout.At(block - 1).bytes);
      }
      taken.emplace_back(image.entry.record_offset, image.entry.record_offset + image.entry.record_bytes + image.entry.map_bytes);
    }
    std::ranges::sort(taken);
    for (size_t i = 1; i < taken.size(); ++i) EXPECT_LE(taken[i - 1].second, taken[i].first);
    const uint64_t records_end = taken.back().second;
    EXPECT_LT(records_end, 3 * (kLaidOutRoom + 16 * kChunkAlignment)) << "and little else";
  }
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(IsOk(client(rank).CheckLocal(At(2), kLaidOutBytes)));
}

TEST_F(NodeLayout, OfOneRankIsNoOther) {
  Attach(1);
  Take(1);
  ExpectOneObject(1);
}

TEST_F(NodeLayout, ABitThatFlipsHurtsOneImage) {
  Attach(3);
  Take(1);
  if (HasFatalFailure()) return;
  const std::string path = scenario_.store() + "/" + Image(1, 1).object_key;
  files::permissions(path, files::perms::owner_all);
  FlipBit(path, Image(1, 1).map->runs.front().offset + 100);
  const VerifyReport report = VerifyVersion(catalog(), At(1), {}).value();
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_EQ(report.problems.front().rank, 1u);
  for (const uint32_t rank : {0u, 2u}) EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), At(1), rank, kLaidOutBytes)));
  // So does one in its record.
  FlipBit(path, Image(1, 2).entry.record_offset + 60);
  EXPECT_EQ(ReadImage(catalog(), At(1), 2).status().code(), Code::kCorrupt);
  EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), At(1), 0, kLaidOutBytes)));
}

// Its bytes were not those that it had captured, and there are no others: the others' part stands.
TEST_F(NodeLayout, AnImageThatIsDamagedHoldsUpNoOther) {
  Attach(3);
  client(1).FlipInNextCapture(100'000);
  CaptureAll(1);
  ASSERT_TRUE(IsOk(client(1).NextFailure(seconds(30))));
  for (const uint32_t rank : {0u, 2u}) {
    ASSERT_TRUE(WaitFor([&] { return ReadPublishedImage(catalog(), At(1), rank).ok(); }, seconds(20))) << rank;
  }
  EXPECT_FALSE(ReadPublishedImage(catalog(), At(1), 1).ok());
  Take(2);
  ExpectOneObject(2);
}

// A rank gives up in the middle: what of it is written lies in the object, and nobody refers to it.
TEST_F(NodeLayout, ARankThatGivesUpInTheMiddleHoldsUpNoOther) {
  Attach(3);
  ASSERT_TRUE(IsOk(client(1).CaptureButEnd(At(1), kLaidOutBytes)));
  ASSERT_TRUE(WaitFor([&] { return BytesIn(scenario_.store()) >= kLaidOutBytes / 2; }, seconds(20)));
  for (const uint32_t rank : {0u, 2u}) ASSERT_TRUE(IsOk(client(rank).CaptureButEnd(At(1), kLaidOutBytes)));
  client(1).Abort();
  for (const uint32_t rank : {0u, 2u}) ASSERT_TRUE(IsOk(client(rank).SendEnd()));
  for (const uint32_t rank : {0u, 2u}) {
    ASSERT_TRUE(WaitFor([&] { return ReadPublishedImage(catalog(), At(1), rank).ok(); }, seconds(20))) << rank;
  }
  EXPECT_FALSE(ReadPublishedImage(catalog(), At(1), 1).ok());
  EXPECT_FALSE(InspectGeneration(catalog(), At(1))->complete);
  // Taken again it is complete, and the other taking goes.
  const Generation again = client(0).GenerationOf("ckpt", 1, 2);
  for (const auto& one : clients_) ASSERT_TRUE(IsOk(one->Capture(again, kLaidOutBytes)));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(IsOk(client(rank).Wait(again, Level::kStore)->failure));
    EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), again, rank, kLaidOutBytes)));
  }
}

TEST_F(NodeLayout, ARankThatIsLateHasItsOwnObject) {
  Attach(2);
  ASSERT_TRUE(IsOk(client(1).Capture(At(1), kLaidOutBytes)));
  ASSERT_TRUE(WaitFor([&] { return ReadPublishedImage(catalog(), At(1), 1).ok(); }, seconds(20)));
  ASSERT_TRUE(IsOk(client(0).Capture(At(1), kLaidOutBytes)));
  for (const uint32_t rank : {0u, 1u}) ExpectStored(1, rank);
  EXPECT_EQ(Image(1, 0).entry.object, keys::ImageObject(0));
  EXPECT_FALSE(Image(1, 0).map.has_value());
  EXPECT_TRUE(keys::IsNodeObject(Image(1, 1).entry.object));
}

// What the versions share lies in objects of several ranks: these stay while somebody uses the most of them, and then go.
TEST_F(NodeLayout, OldObjectsGoWhenTheRanksUseLittleOfThem) {
  JobKeys keys;
  keys.reduce_incremental = Feature::kOn;
  keys.reduce_block_bytes = 4096;
  Attach(3, keys);
  for (int64_t version = 1; version <= 12; ++version) {
    Take(version);
    if (HasFatalFailure()) return;
    ExpectOneObject(version);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const StoredBytes bytes = StoredBytesOf(Image(version, rank));
      EXPECT_EQ(bytes.own + bytes.shared + bytes.zeros, kLaidOutBytes);
      // Three blocks of four are those of the version before.
      if (version > 1) {
        EXPECT_LT(bytes.own, kLaidOutBytes * 3 / 10) << version;
      }
    }
    EXPECT_LE(InspectGeneration(catalog(), At(version))->references.size(), 8u);
  }
  EXPECT_TRUE(WaitFor([&] { return BytesIn(scenario_.store()) < 3 * 2 * kLaidOutBytes; }, seconds(10)))
      << BytesIn(scenario_.store());
  EXPECT_TRUE(CollectGarbage(catalog(), {})->problems.empty());
  // By hand the one before goes, too: its objects stay as long as the newest needs them.
  ASSERT_TRUE(IsOk(WithdrawVersion(catalog(), At(11)).status()));
  EXPECT_TRUE(VerifyVersion(catalog(), At(12), {})->problems.empty());
  Take(13);
}

TEST_F(NodeLayout, BlocksOfSeveralRanksAreThereOnce) {
  JobKeys keys;
  keys.reduce_incremental = Feature::kOn;
  keys.reduce_deduplicate = Deduplication::kNode;
  keys.reduce_compress = Feature::kOn;
  keys.reduce_block_bytes = 4096;
  // Less than a piece: the agent hears of it when it is whole, so that all of it may be borrowed.
  constexpr size_t kSmallBytes = 200'000;
  Attach(3, keys);
  for (int64_t version = 1; version <= 6; ++version) {
    const Generation generation = client(0).GenerationOf(kCommonName, version);
    CaptureAtOnce(generation, kSmallBytes);
    if (HasFatalFailure()) return;
    uint64_t own_bytes = 0;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(IsOk(client(rank).Wait(generation, Level::kStore)->failure));
      EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), generation, rank, kSmallBytes)));
      const StoredImage image = ReadImage(catalog(), generation, rank).value();
      const StoredBytes bytes = StoredBytesOf(image);
      EXPECT_EQ(bytes.own + bytes.borrowed + bytes.shared, kSmallBytes);
      own_bytes += bytes.own;
      std::set<std::string> named;
      for (const SharedObject& object : image.map->objects) EXPECT_TRUE(named.insert(object.key).second) << object.key;
    }
    EXPECT_LT(own_bytes, 2 * kSmallBytes) << version;
  }
  EXPECT_TRUE(VerifyVersion(catalog(), client(0).GenerationOf(kCommonName, 6), {})->problems.empty());
}

TEST_F(NodeLayout, ACopyHasAnObjectForEachRank) {
  Attach(2);
  Take(1);
  if (HasFatalFailure()) return;
  const std::string there = scenario_.path() + "/there";
  const auto target_store = MakePosixStore(os::SystemFileSystem(), {there, 0600, 0700, false});
  const Catalog target = Catalog::OpenOrCreate(*target_store, {"test", 0, "copy"}).value();
  ASSERT_TRUE(IsOk(CopyVersion(catalog(), At(1), target, {})));
  Generation copied = At(1);
  copied.store_id = target.id();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ReadImage(target, copied, rank)->entry.object, keys::ImageObject(rank));
  }
  EXPECT_TRUE(VerifyVersion(target, copied, {})->problems.empty());
}

// The store is away while what is written is to be published.
TEST_F(NodeLayout, WaitsForTheStore) {
  Attach(2);
  ASSERT_TRUE(IsOk(client(1).CaptureButEnd(At(1), kLaidOutBytes)));
  ASSERT_TRUE(IsOk(client(0).Capture(At(1), kLaidOutBytes)));
  ASSERT_TRUE(WaitFor([&] { return BytesIn(scenario_.store()) >= kLaidOutBytes * 3 / 2; }, seconds(20)));
  const std::string away = scenario_.store() + ".away";
  files::rename(scenario_.store(), away);
  ASSERT_TRUE(IsOk(client(1).SendEnd()));
  EXPECT_EQ(client(1).Wait(At(1), Level::kStore, seconds(1))->failure.code(), Code::kTimeout);
  files::rename(away, scenario_.store());
  for (const uint32_t rank : {0u, 1u}) ExpectStored(1, rank);
  EXPECT_TRUE(VerifyVersion(catalog(), At(1), {})->problems.empty());
}

// An agent whose calls on the store fail as the test says.
class NodeLayoutWithFaults : public NodeLayout {
 protected:
  void FailTheObject(os::testing::CallSet calls) { agents_.Fail("/data/n", calls, EIO); }

  const SteeredAgents agents_{scenario_.path() + "/steering"};
};

// All images that lie there are written again, and nothing stays of the first try.
TEST_F(NodeLayoutWithFaults, AWriteThatFailsCostsAllImagesOfTheObjectATry) {
  Attach(3);
  for (const auto& one : clients_) ASSERT_TRUE(IsOk(one->CaptureButEnd(At(1), kLaidOutBytes)));
  ASSERT_TRUE(WaitFor([&] { return BytesIn(scenario_.store()) >= kLaidOutBytes / 2; }, seconds(20)));
  FailTheObject(os::testing::CallsOf(os::testing::Call::kPwrite));
  for (const auto& one : clients_) ASSERT_TRUE(IsOk(one->SendEnd()));
  ASSERT_TRUE(WaitFor([&] { return client(0).AgentStatus()->find("\"flush_retries\":0,") == std::string::npos; }, seconds(20)));
  agents_.Mend();
  for (uint32_t rank = 0; rank < 3; ++rank) ExpectStored(1, rank);
  for (const std::string& name : Data(1)) EXPECT_FALSE(name.ends_with(".tmp")) << name;
}

// Nobody knows what of it is durable: each image is written again, to an object of its own.
TEST_F(NodeLayoutWithFaults, ASyncThatFailsCostsAllImagesOfTheObjectATry) {
  Attach(3);
  FailTheObject(os::testing::CallsOf(os::testing::Call::kFsync, os::testing::Call::kFdatasync));
  CaptureAll(1);
  for (uint32_t rank = 0; rank < 3; ++rank) ExpectStored(1, rank);
  std::vector<std::string> data = Data(1);
  std::ranges::sort(data);
  EXPECT_EQ(data, (std::vector<std::string>{"r0", "r1", "r2"}));
}

class AgentKilledWithNodeLayout : public ::testing::TestWithParam<std::string> {};

TEST_P(AgentKilledWithNodeLayout, ItsSuccessorGoesOn) {
  JobKeys keys;
  keys.store_layout = StoreLayout::kNode;
  ExpectASuccessorGoesOn(GetParam(), keys, "ckpt", 700'000);
}

INSTANTIATE_TEST_SUITE_P(Points, AgentKilledWithNodeLayout,
                         ::testing::Values("piece-written:1", "piece-written:4", "piece-written:12", "publish-records-written:1",
                                           "publish-records-written:2", "publish-done:1", "publish-done:2", "publish-saved:1",
                                           "publish-saved:3", "retention-done:3"),
                         NameOfPoint<std::string>);

}  // namespace
}  // namespace kedge::testing
