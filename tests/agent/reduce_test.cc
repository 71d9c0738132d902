// What versions share in the store: an agent writes the blocks that are new, and everything is read as it was captured.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <numeric>

#include "base/clock.h"
#include "store/garbage.h"
#include "store/posix/posix_store.h"
#include "store/publish.h"
#include "store/retention.h"
#include "store/sharing/image_object.h"
#include "store/verify.h"
#include "store/versions.h"
#include "tests/agent/agent_client.h"

namespace kedge::testing {
namespace {

using std::chrono::seconds;
namespace files = std::filesystem;

constexpr size_t kReducedBytes = (3 << 20) + 5000;

JobKeys KeysWith(Feature incremental, Feature compress = Feature::kOff) {
  JobKeys keys;
  keys.reduce_incremental = incremental;
  keys.reduce_compress = compress;
  keys.reduce_block_bytes = 4096;
  return keys;
}

class ReducedFlush : public ::testing::Test {
 protected:
  void Take(AgentClient& client, int64_t version, const std::string& name = "ckpt", size_t bytes = kReducedBytes) {
    const Generation generation = client.GenerationOf(name, version);
    ASSERT_TRUE(IsOk(client.Capture(generation, bytes)));
    const auto stored = client.Wait(generation, Level::kStore);
    ASSERT_TRUE(IsOk(stored));
    ASSERT_TRUE(IsOk(stored->failure));
    ASSERT_TRUE(IsOk(CheckStored(scenario_.store(), generation, 0, bytes)));
  }
  // Until its object is: its base has been claimed and read by then.
  void AwaitBegun(const Generation& generation) {
    const std::string objects = scenario_.store() + "/" + keys::ObjectsFolder(generation);
    ASSERT_TRUE(WaitFor([&] { return files::exists(objects); }, seconds(20)));
  }
  // One more than so many, while the newest of those is removed.
  void TakeWhileItsBaseGoes(int64_t versions, const std::function<Status(const Generation&)>& remove) {
    JobKeys keys = KeysWith(Feature::kOn);
    keys.keep_versions = 10;
    AgentClient client(scenario_, {.keys = keys});
    ASSERT_TRUE(IsOk(client.Attach()));
    for (int64_t version = 1; version <= versions; ++version) Take(client, version);
    const Generation base = client.GenerationOf("ckpt", versions), next = client.GenerationOf("ckpt", versions + 1);
    ASSERT_TRUE(IsOk(client.CaptureButEnd(next, kReducedBytes)));
    AwaitBegun(next);
    ASSERT_TRUE(IsOk(remove(base)));
    ASSERT_TRUE(IsOk(client.SendEnd()));
    ASSERT_TRUE(IsOk(client.Wait(next, Level::kStore)->failure));
    EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), next, 0, kReducedBytes)));
    EXPECT_GT(BytesOf(next).shared, 0u);
  }
  StoredBytes BytesOf(const Generation& generation) { return StoredBytesOf(ReadImage(catalog(), generation, 0).value()); }
  const Catalog& catalog() {
    if (!catalog_) catalog_ = Catalog::OpenOrCreate(*store_, {"test", 0, "test"}).value();
    return *catalog_;
  }

  ScenarioFolder scenario_;
  const std::unique_ptr<Store> store_ = MakePosixStore(os::SystemFileSystem(), {scenario_.store(), 0600, 0700, false});
  std::optional<Catalog> catalog_;
};

TEST_F(ReducedFlush, WritesWhatTheVersionBeforeHasNot) {
  AgentClient client(scenario_, {.keys = KeysWith(Feature::kOn)});
  ASSERT_TRUE(IsOk(client.Attach()));
  for (int64_t version = 1; version <= 20; ++version) {
    Take(client, version);
    if (HasFatalFailure()) return;
    const StoredBytes bytes = BytesOf(client.GenerationOf("ckpt", version));
    EXPECT_EQ(bytes.own + bytes.shared + bytes.zeros, kReducedBytes);
    if (version == 1) {
      EXPECT_EQ(bytes.own, kReducedBytes);
    } else {
      // Three blocks of four are those of the version before.
      EXPECT_LT(bytes.own, kReducedBytes * 3 / 10) << version;
    }
    const auto info = InspectGeneration(catalog(), client.GenerationOf("ckpt", version));
    EXPECT_LE(info->references.size(), 8u);
  }
  // Two versions, what they need, and no more.
  EXPECT_TRUE(WaitFor([&] { return BytesIn(scenario_.store()) < 2 * kReducedBytes; }, seconds(10))) << BytesIn(scenario_.store());
  const std::string status = client.AgentStatus().value();
  EXPECT_NE(status.find("\"saved_bytes\""), std::string::npos) << status;
  for (const int64_t version : {19, 20}) {
    EXPECT_TRUE(VerifyVersion(catalog(), client.GenerationOf("ckpt", version), {})->problems.empty());
  }
  EXPECT_TRUE(CollectGarbage(catalog(), {})->problems.empty());
  EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), client.GenerationOf("ckpt", 20), 0, kReducedBytes)));
}

TEST_F(ReducedFlush, OffWritesAll) {
  AgentClient client(scenario_, {.keys = KeysWith(Feature::kOff)});
  ASSERT_TRUE(IsOk(client.Attach()));
  for (int64_t version = 1; version <= 2; ++version) Take(client, version);
  EXPECT_FALSE(ReadImage(catalog(), client.GenerationOf("ckpt", 2), 0)->map.has_value());
}

TEST_F(ReducedFlush, AutoPassesOverSmallImages) {
  AgentClient client(scenario_, {.keys = KeysWith(Feature::kAuto)});
  ASSERT_TRUE(IsOk(client.Attach()));
  for (int64_t version = 1; version <= 2; ++version) {
    Take(client, version);
    Take(client, version, "small", 60'000);
  }
  EXPECT_GT(BytesOf(client.GenerationOf("ckpt", 2)).shared, 0u);
  EXPECT_FALSE(ReadImage(catalog(), client.GenerationOf("small", 2), 0)->map.has_value());
}

// What it needs to know is in the store: an agent that has just begun, and a later launch, share as well.
TEST_F(ReducedFlush, IsGoneOnWithByAnotherAgentAndAnotherLaunch) {
  for (uint32_t attempt = 1; attempt <= 3; ++attempt) {
    AgentClient client(scenario_,
                       {.attempt = attempt, .keys = KeysWith(Feature::kOn), .node_keys = {{"agent.idle_timeout", "1s"}}});
    ASSERT_TRUE(IsOk(client.Attach()));
    const Generation generation = client.GenerationOf("ckpt", attempt, 1);
    ASSERT_TRUE(IsOk(client.Capture(generation, kReducedBytes)));
    ASSERT_TRUE(IsOk(client.Wait(generation, Level::kStore)->failure));
    EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), generation, 0, kReducedBytes)));
    EXPECT_EQ(BytesOf(generation).shared > 0, attempt > 1);
    ASSERT_TRUE(IsOk(client.Goodbye()));
    client.Disconnect();
    ASSERT_TRUE(WaitFor([&] { return scenario_.AgentPid() == 0; }, seconds(20)));
  }
}

// Its base goes by hand while it is on its way: its objects stay as long as it needs them.
TEST_F(ReducedFlush, KeepsItsBaseFromRemovalByHand) {
  TakeWhileItsBaseGoes(2, [&](const Generation& base) { return RemoveVersion(catalog(), base, {}); });
}

// The only one there.
TEST_F(ReducedFlush, KeepsItsBaseFromItsWithdrawal) {
  TakeWhileItsBaseGoes(1, [&](const Generation& base) { return WithdrawVersion(catalog(), base).status(); });
}

// Removed by somebody with its base record, it is written again, and nobody must take its base away meanwhile.
TEST_F(ReducedFlush, ClaimsItsBaseOnceMoreWhereItsFolderHasGone) {
  AgentClient client(scenario_, {.keys = KeysWith(Feature::kOn)});
  ASSERT_TRUE(IsOk(client.Attach()));
  Take(client, 1);
  const Generation base = client.GenerationOf("ckpt", 1), next = client.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(client.CaptureButEnd(next, kReducedBytes)));
  const std::string record = scenario_.store() + "/" + keys::BaseKey(next, base);
  AwaitBegun(next);
  ASSERT_TRUE(files::exists(record));
  files::rename(scenario_.store() + "/" + keys::GenerationFolder(next), scenario_.store() + ".away");
  ASSERT_TRUE(IsOk(client.SendEnd()));
  ASSERT_TRUE(IsOk(client.Wait(next, Level::kStore)->failure));
  EXPECT_GT(BytesOf(next).shared, 0u);
  EXPECT_TRUE(files::exists(record));
}

// The store comes back as it was before the base was there: what refers to it does not count, and is written again.
TEST_F(ReducedFlush, WritesAgainWhatAnOlderCopyOfTheStoreLacks) {
  AgentClient client(scenario_, {.keys = KeysWith(Feature::kOn)});
  ASSERT_TRUE(IsOk(client.Attach()));
  Take(client, 1);
  const std::string copy = scenario_.store() + ".copy";
  files::copy(scenario_.store(), copy, files::copy_options::recursive);
  Take(client, 2);
  const Generation next = client.GenerationOf("ckpt", 3);
  ASSERT_TRUE(IsOk(client.CaptureButEnd(next, kReducedBytes)));
  ASSERT_TRUE(WaitFor([&] { return files::exists(scenario_.store() + "/" + keys::BasesFolder(next)); }, seconds(20)));
  files::rename(scenario_.store(), scenario_.store() + ".away");
  files::rename(copy, scenario_.store());
  ASSERT_TRUE(IsOk(client.SendEnd()));
  ASSERT_TRUE(IsOk(client.Wait(next, Level::kStore)->failure));
  EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), next, 0, kReducedBytes)));
}

TEST_F(ReducedFlush, WritesCompressedBlocks) {
  AgentClient client(scenario_, {.keys = KeysWith(Feature::kOff, Feature::kOn)});
  ASSERT_TRUE(IsOk(client.Attach()));
  for (int64_t version = 1; version <= 3; ++version) {
    Take(client, version);
    if (HasFatalFailure()) return;
    const StoredBytes bytes = BytesOf(client.GenerationOf("ckpt", version));
    EXPECT_EQ(bytes.own, kReducedBytes) << "nothing is shared";
    EXPECT_LT(bytes.stored, kReducedBytes * 85 / 100) << "a quarter of its bytes are zero";
    EXPECT_TRUE(VerifyVersion(catalog(), client.GenerationOf("ckpt", version), {})->problems.empty());
  }
  EXPECT_TRUE(WaitFor([&] { return BytesIn(scenario_.store()) < 2 * kReducedBytes * 9 / 10; }, seconds(10)))
      << BytesIn(scenario_.store());
}

TEST_F(ReducedFlush, SharesCompressedBlocks) {
  JobKeys keys = KeysWith(Feature::kOn, Feature::kOn);
  AgentClient client(scenario_, {.keys = keys});
  ASSERT_TRUE(IsOk(client.Attach()));
  for (int64_t version = 1; version <= 12; ++version) {
    Take(client, version);
    if (HasFatalFailure()) return;
    const StoredBytes bytes = BytesOf(client.GenerationOf("ckpt", version));
    EXPECT_EQ(bytes.own + bytes.shared + bytes.zeros, kReducedBytes);
    EXPECT_LT(bytes.stored, bytes.own * 85 / 100);
    if (version > 1) {
      EXPECT_LT(bytes.own, kReducedBytes * 3 / 10) << version;
    }
  }
  EXPECT_TRUE(WaitFor([&] { return BytesIn(scenario_.store()) < 2 * kReducedBytes * 9 / 10; }, seconds(10)))
      << BytesIn(scenario_.store());
  EXPECT_TRUE(CollectGarbage(catalog(), {})->problems.empty());
  EXPECT_TRUE(VerifyVersion(catalog(), client.GenerationOf("ckpt", 12), {})->problems.empty());
}

// What does not shrink is written as it is.
TEST_F(ReducedFlush, CompressesNothingThatDoesNotShrink) {
  AgentClient client(scenario_, {.keys = KeysWith(Feature::kOff, Feature::kOn)});
  ASSERT_TRUE(IsOk(client.Attach()));
  Take(client, 1, "tiny", 5);
  EXPECT_EQ(BytesOf(client.GenerationOf("tiny", 1)).stored, 5u);
}

// Not where processors are busy, which nobody here knows: sooner or later they are not.
TEST_F(ReducedFlush, AutoCompressesForASlowStore) {
  AgentClient client(scenario_, {.keys = KeysWith(Feature::kOff, Feature::kAuto),
                                 .node_keys = {{"flush.rate", "16MiB"}, {"flush.workers", "1"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  bool compressed = false;
  const Deadline deadline(SystemClock(), seconds(120));
  for (int64_t version = 1; !compressed && !deadline.Passed(); ++version) {
    Take(client, version);
    if (HasFatalFailure()) return;
    const StoredBytes bytes = BytesOf(client.GenerationOf("ckpt", version));
    compressed = bytes.stored < bytes.own;
  }
  EXPECT_TRUE(compressed);
}

// Found where it lies, named, and told from a version that is whole.
TEST_F(ReducedFlush, ABitThatFlipsInACompressedBlockIsNamed) {
  AgentClient client(scenario_, {.keys = KeysWith(Feature::kOff, Feature::kOn)});
  ASSERT_TRUE(IsOk(client.Attach()));
  for (int64_t version = 1; version <= 2; ++version) Take(client, version);
  const Generation bad = client.GenerationOf("ckpt", 2);
  const StoredImage image = ReadImage(catalog(), bad, 0).value();
  const auto run =
      std::find_if(image.map->runs.begin(), image.map->runs.end(), [](const BlockRun& r) { return r.is_compressed; });
  ASSERT_NE(run, image.map->runs.end());
  const std::string path = scenario_.store() + "/" + image.object_key;
  files::permissions(path, files::perms::owner_all);
  FlipBit(path, run->offset + 60);
  const VerifyReport report = VerifyVersion(catalog(), bad, {}).value();
  ASSERT_FALSE(report.problems.empty());
  EXPECT_NE(report.problems.front().what.find(image.object_key), std::string::npos) << report.problems.front().what;
  EXPECT_NE(report.problems.front().what.find("compressed block"), std::string::npos) << report.problems.front().what;
  EXPECT_EQ(CheckStored(scenario_.store(), bad, 0, kReducedBytes).code(), Code::kCorrupt);
  EXPECT_TRUE(VerifyVersion(catalog(), client.GenerationOf("ckpt", 1), {})->problems.empty());
  EXPECT_TRUE(IsOk(client.CheckLocal(bad, kReducedBytes)));
}

}  // namespace
}  // namespace kedge::testing
