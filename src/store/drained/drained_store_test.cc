// A store with a burst buffer before it: what becomes of cargo when the buffer is away.
#include "store/drained/drained_store.h"

#include <gtest/gtest.h>

#include <optional>

#include "os/testing/simulated_file_system.h"
#include "store/posix/posix_store.h"
#include "store/retention.h"
#include "store/testing/unsteady_store.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge::testing {
namespace {

class DrainedStoreTest : public ::testing::Test {
 protected:
  DrainedStoreTest()
      : buffer_(std::make_shared<Unsteady>(MakePosixStore(buffer_files_, {.path = "/buffer"}))),
        alone_(MakePosixStore(store_files_, {.path = "/store"})) {
    DrainedStoreOptions options;
    options.clock = &clock_;
    options.begin = [this] { return ++begun_, begin_; };
    store_ = MakeDrainedStore(buffer_, alone_, options);
    catalog_.emplace(*Catalog::OpenOrCreate(*store_, {"node1", 1, "agent"}));
  }
  Generation At(int64_t version) { return {catalog_->id(), "job", "wave", version, 1, static_cast<uint32_t>(version)}; }
  Status Take(int64_t version) { return TakeVersion(*catalog_, At(version), options_); }
  // Alone, without the buffer.
  Result<VersionInfo> InStore(int64_t version) {
    return InspectGeneration(*Catalog::Open(*alone_, {"login", 0, "tool"}), At(version));
  }
  void GoAway() { buffer_->failure = {Code::kUnavailable, "cut"}; }
  void ComeBack() {
    buffer_->failure = Status::Ok();
    clock_.now_ns += Duration(std::chrono::seconds(11)).count();
  }

  os::testing::SimulatedFileSystem buffer_files_, store_files_;
  StillClock clock_;
  Status begin_;
  int begun_ = 0;
  std::shared_ptr<Unsteady> buffer_;
  std::shared_ptr<Store> alone_;
  std::unique_ptr<Store> store_;
  std::optional<Catalog> catalog_;
  MakerOptions options_;
};

TEST(WhereLies, OfTheCatalogsKeys) {
  const Generation generation{{1, 2}, "job", "wave", 7, 1, 3};
  for (const std::string& key : {keys::ImageKey(generation, 0), keys::PartKey(generation, 0, 2), keys::VersionKey(generation),
                                 keys::BaseKey(generation, generation), keys::GenerationFolder(generation)})
    EXPECT_EQ(WhereLies(key), Lies::kCargo) << key;
  for (const std::string& key :
       {std::string(keys::kStoreKey), keys::JobKey("job"), keys::AttemptKey("job", 1), keys::NameKey("job", "wave"),
        keys::ReachedKey("job", "wave"), keys::RestoredKey("job", "wave", 1, 2), keys::WithdrawnKey(generation),
        keys::PinKey(generation), keys::RemovedKey(generation), keys::AttemptsFolder("job"), std::string()})
    EXPECT_EQ(WhereLies(key), Lies::kInStore) << key;
  EXPECT_EQ(WhereLies(keys::NameFolder("job", "wave")), Lies::kAbove);
}

TEST_F(DrainedStoreTest, VersionsGoToTheBufferAndAreReadFromThere) {
  ASSERT_TRUE(Take(1).ok());
  const auto info = InspectGeneration(*catalog_, At(1));
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_TRUE(info->complete);
  EXPECT_FALSE(info->drained);
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
  EXPECT_EQ(InStore(1).status().code(), Code::kNotFound);
  EXPECT_EQ(begun_, 1);
}

TEST_F(DrainedStoreTest, WhatTheServerRefusesIsTold) {
  begin_ = Status(Code::kPermission, "not there");
  EXPECT_EQ(Take(1).code(), Code::kPermission);
  begin_ = Status::Ok();
  EXPECT_TRUE(Take(2).ok());
}

TEST_F(DrainedStoreTest, WhileTheBufferIsAwayVersionsGoToTheStore) {
  ASSERT_TRUE(Take(1).ok());
  GoAway();
  const Status taken = Take(2);
  ASSERT_TRUE(taken.ok()) << taken.ToString();
  EXPECT_TRUE(InStore(2)->complete);
  const auto newest = NewestAtOrBelow(*catalog_, "job", "wave", -1);
  ASSERT_TRUE(newest.ok()) << newest.status().ToString();
  EXPECT_EQ(newest->generation.version, 2);
  EXPECT_TRUE(newest->drained);
  ComeBack();
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
  ASSERT_TRUE(Take(3).ok());
  EXPECT_FALSE(InspectGeneration(*catalog_, At(3))->drained);
}

// Agents look from time to time whether the store is there.
TEST_F(DrainedStoreTest, ABufferThatIsBackIsTriedHoweverOftenTheStoreIsLookedAt) {
  ASSERT_TRUE(Take(1).ok());
  GoAway();
  ASSERT_TRUE(Take(2).ok());
  buffer_->failure = Status::Ok();
  for (int looks = 0; looks < 4; ++looks) {
    clock_.now_ns += Duration(std::chrono::seconds(3)).count();
    ASSERT_TRUE(catalog_->Confirm().ok());
  }
  ASSERT_TRUE(Take(3).ok());
  EXPECT_FALSE(InspectGeneration(*catalog_, At(3))->drained);
}

TEST_F(DrainedStoreTest, ABufferWithoutRoomIsPassedBy) {
  buffer_->refusal = {Code::kNoSpace, "full"};
  ASSERT_TRUE(Take(1).ok());
  EXPECT_TRUE(InStore(1)->complete);
}

TEST_F(DrainedStoreTest, ARecordDoesNotComeToTheStoreBeforeWhatItNames) {
  options_.ranks = 2;
  ASSERT_TRUE(PublishRanks(*catalog_, At(1), 0, 1, options_).ok());
  GoAway();
  // Its own object can go there, and its part; the version cannot, since the other part is on the buffer.
  const auto published = PublishRanks(*catalog_, At(1), 1, 1, options_);
  EXPECT_FALSE(published.ok() && published->complete);
  const auto alone = InStore(1);
  EXPECT_FALSE(alone.ok() && alone->complete);
  ComeBack();
  const auto finished = FinishVersion(*catalog_, At(1));
  ASSERT_TRUE(finished.ok()) << finished.status().ToString();
  EXPECT_TRUE(finished->complete);
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
  EXPECT_FALSE(InStore(1)->complete);
}

TEST_F(DrainedStoreTest, APartDoesNotComeToTheStoreBeforeItsObject) {
  ASSERT_TRUE(Take(1).ok());
  const std::string key = keys::PartKey(At(1), 0, 1);
  const Buffer part = *buffer_->Get(key, kSmallRecordBytesMax);
  ASSERT_TRUE(alone_->MakeFolder(keys::PartsFolder(At(1))).ok());
  GoAway();
  EXPECT_EQ(store_->PutIfAbsent(key, part, catalog_->owner(), Folders::kMustExist).code(), Code::kUnavailable);
  EXPECT_EQ(alone_->Get(key, kSmallRecordBytesMax).status().code(), Code::kNotFound);
}

TEST_F(DrainedStoreTest, AVersionWithItsPartInsideDoesNotComeToTheStoreBeforeItsObjects) {
  options_.ranks_per_part = options_.ranks;
  const auto disk = MakePosixStore(buffer_files_, {.path = "/buffer"});
  ASSERT_TRUE(disk->PutIfAbsent(keys::kStoreKey, *alone_->Get(keys::kStoreKey, 1 << 20), {}, Folders::kCreate).ok());
  const Catalog on_disk = Catalog::Assume(*disk, catalog_->id(), catalog_->owner());
  ASSERT_TRUE(TakeVersion(on_disk, At(1), options_).ok());
  ASSERT_FALSE(ReadVersionRecord(on_disk, At(1))->part_inside.empty());
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
  const std::string key = keys::VersionKey(At(1));
  const Buffer version = *buffer_->Get(key, kSmallRecordBytesMax);
  ASSERT_TRUE(alone_->MakeFolder(keys::GenerationFolder(At(1))).ok());
  GoAway();
  EXPECT_EQ(store_->PutIfAbsent(key, version, catalog_->owner(), Folders::kMustExist).code(), Code::kUnavailable);
  EXPECT_EQ(alone_->Get(key, kSmallRecordBytesMax).status().code(), Code::kNotFound);
}

TEST_F(DrainedStoreTest, NothingIsRemovedWhileTheBufferIsAway) {
  ASSERT_TRUE(Take(1).ok());
  ASSERT_TRUE(Take(2).ok());
  GoAway();
  EXPECT_EQ(store_->RemoveFolder(keys::GenerationFolder(At(1)), {}, catalog_->owner()).code(), Code::kUnavailable);
  ComeBack();
  RetentionReport report;
  ASSERT_TRUE(ApplyRetention(*catalog_, "job", "wave", {.keep = 1, .in_use = {}}, &report).ok());
  EXPECT_EQ(CompleteVersions(*catalog_, "job", "wave", -1)->size(), 1U);
  EXPECT_EQ(InspectGeneration(*catalog_, At(1)).status().code(), Code::kNotFound);
}

TEST_F(DrainedStoreTest, MarksOfWhatIsOnTheBufferLieInTheStore) {
  ASSERT_TRUE(Take(1).ok());
  ASSERT_TRUE(PinVersion(*catalog_, At(1)).ok());
  EXPECT_TRUE(InspectGeneration(*catalog_, At(1))->pinned);
  EXPECT_TRUE(InStore(1)->pinned);
  ASSERT_TRUE(UnpinVersion(*catalog_, At(1)).ok());
  EXPECT_FALSE(InspectGeneration(*catalog_, At(1))->pinned);
  EXPECT_EQ(PinVersion(*catalog_, At(9)).code(), Code::kNotFound);
}

// A version whose parts were written again while the buffer was away: its own are read, not those that the buffer has of it.
TEST_F(DrainedStoreTest, PartsOfAVersionInTheStoreAreTheStores) {
  options_.ranks = 2;
  ASSERT_TRUE(PublishRanks(*catalog_, At(1), 0, 1, options_).ok());
  GoAway();
  MakerOptions again = options_;
  again.one_object = true;
  const auto finished = PublishRanks(*catalog_, At(1), 0, 1, again);
  ASSERT_TRUE(finished.ok()) << finished.status().ToString();
  ASSERT_TRUE(PublishRanks(*catalog_, At(1), 1, 1, again).ok());
  ASSERT_TRUE(InStore(1)->complete);
  ComeBack();
  ASSERT_TRUE(InspectGeneration(*catalog_, At(1))->complete);
  const Status whole = CheckVersion(*catalog_, At(1));
  EXPECT_TRUE(whole.ok()) << whole.ToString();
}

// As the buffer's server does it: the same keys and bytes.
TEST_F(DrainedStoreTest, WhatIsDrainedIsReadFromEither) {
  ASSERT_TRUE(Take(1).ok());
  const auto reader = store_->OpenObject(keys::ImageKey(At(1), 0));
  ASSERT_TRUE(reader.ok());
  for (const char* folder : {"/data", "/parts", ""}) {
    const auto entries = buffer_->List(keys::GenerationFolder(At(1)) + folder);
    for (const StoreEntry& entry : *entries) {
      if (entry.is_folder) continue;
      const std::string key = keys::GenerationFolder(At(1)) + folder + '/' + entry.name;
      const auto source = *buffer_->OpenObject(key);
      Buffer bytes(source->size_bytes());
      ASSERT_TRUE(source->ReadAt(0, bytes).ok());
      ASSERT_TRUE(alone_->Replace(key, bytes, {}, Folders::kCreate).ok());
    }
  }
  EXPECT_TRUE(InspectGeneration(*catalog_, At(1))->drained);
  ASSERT_TRUE(buffer_->RemoveFolder(keys::GenerationFolder(At(1)), {}, {}).ok());
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
  // A version record is created once, wherever it is.
  const Buffer record = *store_->Get(keys::VersionKey(At(1)), kSmallRecordBytesMax);
  EXPECT_EQ(store_->PutIfAbsent(keys::VersionKey(At(1)), record, {}, Folders::kCreate).code(), Code::kAlreadyExists);
  // Whoever had it open goes on.
  buffer_->failure = {Code::kUnavailable, "cut"};
  Buffer byte(1);
  EXPECT_TRUE((*reader)->ReadAt(0, byte).ok());
}

}  // namespace
}  // namespace kedge::testing
