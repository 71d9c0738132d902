// A bit that flips between capture and flush: found by the flush, told with region and place, and nothing older goes for it.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/agent/agent_client.h"

namespace kedge::testing {
namespace {

using std::chrono::seconds;

class Damage : public ::testing::Test {
 protected:
  // Flips a bit of the captured image, `at` bytes into its region, wherever it lies on the node.
  void Flip(const Generation& generation, size_t bytes, size_t at) {
    const std::vector<std::byte> data = PatternOf(generation, 0, bytes);
    const std::string text(AsText(ByteSpan(data).subspan(at, std::min<size_t>(4096, bytes - at))));
    int flipped = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Places())) {
      if (entry.is_regular_file()) flipped += FlipBitIn(entry.path(), text, 5);
    }
    ASSERT_EQ(flipped, 1);
  }
  std::string Places() const { return disk_.empty() ? scenario_.run_folder() + "/pool" : disk_; }
  void TakeSound(AgentClient& client, int64_t version) {
    const Generation generation = client.GenerationOf("ckpt", version);
    ASSERT_TRUE(IsOk(client.Capture(generation, 1000)));
    const auto stored = client.Wait(generation, Level::kStore);
    ASSERT_TRUE(IsOk(stored));
    ASSERT_TRUE(IsOk(stored->failure));
  }
  // As long as it is away nothing is flushed.
  void MoveStoreAway() const { std::filesystem::rename(scenario_.store(), scenario_.store() + ".away"); }
  void BringStoreBack() const { std::filesystem::rename(scenario_.store() + ".away", scenario_.store()); }
  void ExpectCorrupt(AgentClient& client, const Generation& generation, const std::string& place) {
    const auto stored = client.Wait(generation, Level::kStore);
    ASSERT_TRUE(IsOk(stored));
    EXPECT_EQ(stored->failure.code(), Code::kCorrupt) << stored->failure.ToString();
    EXPECT_NE(stored->failure.message().find(place), std::string::npos) << stored->failure.ToString();
    EXPECT_LT(stored->level, Level::kLocal) << "what lies here is not what was captured";
    const auto local = client.Wait(generation, Level::kLocal, seconds(5));
    ASSERT_TRUE(IsOk(local));
    EXPECT_EQ(local->failure.code(), Code::kCorrupt) << local->failure.ToString();
  }

  ScenarioFolder scenario_;
  std::string disk_;  // a folder of tiers; empty: the pool
};

TEST_F(Damage, OfASmallImageIsFoundByTheFlushAndOlderVersionsStay) {
  JobKeys keys;
  keys.keep_versions = 1;
  keys.keep_local = 2;
  AgentClient client(scenario_, {.keys = keys});
  ASSERT_TRUE(IsOk(client.Attach()));
  TakeSound(client, 1);
  const Generation bad = client.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(client.CaptureButEnd(bad, 3000)));
  Flip(bad, 3000, 1000);
  ASSERT_TRUE(IsOk(client.SendEnd()));
  ExpectCorrupt(client, bad, "region 1, bytes 0 to 3000");
  // Its client hears of it without asking.
  const auto failed = client.NextFailure(seconds(10));
  ASSERT_TRUE(IsOk(failed));
  EXPECT_EQ(failed->code, Code::kCorrupt);
  EXPECT_EQ(StoredVersions(scenario_.store(), "job", "ckpt"), std::vector<int64_t>{1});
  EXPECT_TRUE(IsOk(client.CheckLocal(client.GenerationOf("ckpt", 1), 1000)));
  TakeSound(client, 3);
}

TEST_F(Damage, OfALargeImageNamesTheExtent) {
  AgentClient client(scenario_, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  TakeSound(client, 1);
  MoveStoreAway();
  const Generation bad = client.GenerationOf("ckpt", 2);
  constexpr size_t kBytes = 5 << 20;
  ASSERT_TRUE(IsOk(client.Capture(bad, kBytes)));
  Flip(bad, kBytes, 3'300'000);
  BringStoreBack();
  ExpectCorrupt(client, bad, "region 1, bytes 3145728 to 3407872");
  EXPECT_EQ(StoredVersions(scenario_.store(), "job", "ckpt"), std::vector<int64_t>{1});
}

TEST_F(Damage, OfTheImageRecordIsFoundToo) {
  AgentClient client(scenario_, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  TakeSound(client, 1);
  MoveStoreAway();
  const Generation bad = client.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(client.Capture(bad, 3000)));
  const auto local = client.Wait(bad, Level::kLocal);
  ASSERT_TRUE(IsOk(local));
  ASSERT_EQ(local->level, Level::kLocal);
  const auto open = client.connection().Call<OpenImageReply>(OpenImageRequest{bad, 0}, seconds(20));
  ASSERT_TRUE(IsOk(open));
  FlipBit(scenario_.run_folder() + "/pool/pool", open->record.slot * (1 << 20) + open->record.offset + 50);
  ASSERT_TRUE(IsOk(client.connection().Call<DoneReply>(CloseImageRequest{open->image}, seconds(20))));
  BringStoreBack();
  const auto stored = client.Wait(bad, Level::kStore);
  ASSERT_TRUE(IsOk(stored));
  EXPECT_EQ(stored->failure.code(), Code::kCorrupt) << stored->failure.ToString();
}

TEST_F(Damage, InADirectoryTierIsFoundToo) {
  disk_ = scenario_.path() + "/disk";
  AgentClient client(
      scenario_, {.node_keys = {{"pool.size", "0"}, {"tier", "[{name=\"disk\", path='" + disk_ + "', capacity=\"32MiB\"}]"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  TakeSound(client, 1);
  MoveStoreAway();
  const Generation bad = client.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(client.Capture(bad, 2 << 20)));
  Flip(bad, 2 << 20, 1'048'576);
  BringStoreBack();
  ExpectCorrupt(client, bad, "region 1, bytes 1048576 to 1310720");
}

TEST_F(Damage, UnderADeadAgentIsFoundByItsSuccessor) {
  AgentClient client(scenario_, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  TakeSound(client, 1);
  MoveStoreAway();
  const Generation bad = client.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(client.Capture(bad, 2 << 20)));
  const auto local = client.Wait(bad, Level::kLocal);
  ASSERT_TRUE(IsOk(local));
  ASSERT_EQ(local->level, Level::kLocal);
  ASSERT_TRUE(scenario_.KillAgent());
  Flip(bad, 2 << 20, 1'048'576);
  BringStoreBack();
  ASSERT_TRUE(IsOk(client.Attach()));
  ExpectCorrupt(client, bad, "region 1, bytes 1048576 to 1310720");
}

// Of an attempt that is over: the job goes on from an older version, and what its own attempt took gets to the store.
TEST_F(Damage, OfAnAbandonedVersionIsNoFailureOfADrain) {
  AgentClient former(scenario_, {}), client(scenario_, {.attempt = 2});
  ASSERT_TRUE(IsOk(former.Attach()));
  TakeSound(former, 1);
  MoveStoreAway();
  const Generation bad = former.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(former.Capture(bad, 3000)));
  Flip(bad, 3000, 1000);
  ASSERT_TRUE(IsOk(former.Goodbye()));

  ASSERT_TRUE(IsOk(client.Attach()));
  const RestoredRecord restored{former.GenerationOf("ckpt", 1), 2, 1, 1};
  ASSERT_TRUE(IsOk(client.connection().Call<DoneReply>(RestoredRequest{restored, true}, seconds(10))));
  const Generation own = client.GenerationOf("ckpt", 3, 2);
  ASSERT_TRUE(IsOk(client.Capture(own, 1000)));
  // Both wait for the store, and the damage shows while the drain waits for them.
  bool is_back = false;
  const auto drained = client.connection().Drain({{}, {}, Level::kLast, seconds(30)}, [&](const DrainReply& progress) {
    EXPECT_TRUE(is_back || progress.images_pending == 2) << progress.images_pending;
    if (!is_back) BringStoreBack();
    is_back = true;
  });
  ASSERT_TRUE(IsOk(drained));
  EXPECT_TRUE(is_back);
  EXPECT_TRUE(IsOk(drained->failure));
  EXPECT_EQ(StoredVersions(scenario_.store(), "job", "ckpt"), (std::vector<int64_t>{1, 3}));
}

TEST_F(Damage, IsToldByADrainThoughANewerVersionIsForTheNodeAlone) {
  JobKeys keys;
  keys.schedule_store = 2;
  AgentClient client(scenario_, {.keys = keys});
  ASSERT_TRUE(IsOk(client.Attach()));
  const Generation bad = client.GenerationOf("ckpt", 1), newer = client.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(client.CaptureButEnd(bad, 3000)));
  Flip(bad, 3000, 1000);
  ASSERT_TRUE(IsOk(client.SendEnd()));
  ASSERT_TRUE(IsOk(client.NextFailure(seconds(10))));
  ASSERT_TRUE(IsOk(client.Capture(newer, 1000)));
  const auto local = client.Wait(newer, Level::kLast);
  ASSERT_TRUE(IsOk(local));
  ASSERT_EQ(local->level, Level::kLocal);
  const auto drained = client.Drain();
  ASSERT_TRUE(IsOk(drained));
  EXPECT_EQ(drained->failure.code(), Code::kCorrupt) << drained->failure.ToString();
  EXPECT_TRUE(StoredVersions(scenario_.store(), "job", "ckpt").empty());
}

// Chunks of an image greater than the pool leave it before their record comes, which alone tells what they were.
TEST_F(Damage, OfAChunkThatHasLeftItsSlotIsFoundAtTheEnd) {
  AgentClient client(scenario_, {.node_keys = {{"pool.size", "4MiB"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  TakeSound(client, 1);
  client.FlipInNextCapture(600'000);
  const Generation bad = client.GenerationOf("ckpt", 2);
  constexpr size_t kBytes = 8 << 20;
  ASSERT_TRUE(IsOk(client.Capture(bad, kBytes)));
  const auto failed = client.NextFailure(seconds(30));
  ASSERT_TRUE(IsOk(failed));
  EXPECT_EQ(failed->code, Code::kCorrupt);
  EXPECT_NE(failed->text.view().find("job/ckpt version 2"), std::string::npos) << failed->text.view();
  EXPECT_EQ(StoredVersions(scenario_.store(), "job", "ckpt"), std::vector<int64_t>{1});
}

}  // namespace
}  // namespace kedge::testing
