// The catalog's rules one by one, on a simulated file system: identity, publication, completeness, retention, pins.
// What crashes and races do to them is in crash_test.cc and race_test.cc; attempts and garbage have tests of their own.
#include "store/catalog.h"

#include <gtest/gtest.h>

#include "base/testing/manual_clock.h"
#include "format/name_encoding.h"
#include "os/files/files.h"
#include "os/testing/simulated_file_system.h"
#include "store/attempts.h"
#include "store/garbage.h"
#include "store/posix/posix_store.h"
#include "store/reached.h"
#include "store/record_io.h"
#include "store/retention.h"
#include "store/sharing/image_object.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge {
namespace {

using testing::CheckVersion;
using testing::MakerOptions;
using testing::PublishRanks;
using testing::TakeVersion;

class CatalogTest : public ::testing::Test {
 protected:
  CatalogTest() : store_(MakePosixStore(fs_, {.path = "/store"})) {
    Result<Catalog> made = Catalog::OpenOrCreate(*store_, {"node1", 1, "agent"});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    catalog_.emplace(std::move(*made));
  }
  Generation At(int64_t version, uint32_t attempt = 1, uint32_t take = 1, const std::string& name = "wave") {
    return {catalog_->id(), "job", name, version, attempt, take};
  }
  void Take(const Generation& generation) {
    const Status status = TakeVersion(*catalog_, generation, options_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  std::vector<int64_t> Complete(const std::string& name = "wave") {
    std::vector<int64_t> versions;
    const auto complete = CompleteVersions(*catalog_, "job", name, -1);
    EXPECT_TRUE(complete.ok()) << complete.status().ToString();
    for (const VersionInfo& info : *complete) versions.push_back(info.generation.version);
    return versions;
  }
  VersionInfo Inspect(const Generation& generation) {
    Result<VersionInfo> info = InspectGeneration(*catalog_, generation);
    EXPECT_TRUE(info.ok()) << info.status().ToString();
    return info.ok() ? *info : VersionInfo{};
  }
  Status Overwrite(const std::string& key, ByteSpan bytes) {
    return store_->Replace(key, bytes, catalog_->owner(), Folders::kMustExist);
  }
  Status Retain(uint32_t keep, RetentionReport* report = nullptr, const std::string& name = "wave") {
    return ApplyRetention(*catalog_, "job", name, {keep, in_use_}, report);
  }

  os::testing::SimulatedFileSystem fs_;
  std::unique_ptr<Store> store_;
  std::optional<Catalog> catalog_;
  MakerOptions options_;
  std::set<Generation> in_use_;
};

TEST_F(CatalogTest, TheStoreHasOneIdentity) {
  const auto again = Catalog::OpenOrCreate(*store_, {"node2", 1, "agent"});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->id(), catalog_->id());
  EXPECT_EQ(Catalog::Open(*store_, {}).value().id(), catalog_->id());
  const auto elsewhere = MakePosixStore(fs_, {.path = "/elsewhere"});
  const Status none = Catalog::Open(*elsewhere, {}).status();
  EXPECT_EQ(none.code(), Code::kNotFound);
  EXPECT_NE(none.message().find("/elsewhere is no store of Kedge"), std::string::npos) << none.message();
  EXPECT_FALSE(os::Exists(fs_, "/elsewhere").value()) << "Open never writes";
}

// Moved, unmounted (an empty folder is left), or another store in its place: nothing is made there, what was begun is not
// published there, and it gets where it belongs when the store is back, with the same writers.
TEST_F(CatalogTest, NothingIsPublishedWhereTheStoreIsNotAnyMore) {
  options_.ranks = 1;
  int64_t version = 0;
  for (const char* instead : {"nothing", "an empty folder", "another store"}) {
    SCOPED_TRACE(instead);
    Take(At(++version));
    const Generation begun = At(++version);
    ASSERT_TRUE(PrepareGeneration(*catalog_, begun).ok());
    Buffer object;
    const ImageRecord image = testing::MakeImage({begun, 0, 1}, options_, &object);
    auto writer = store_->CreateObject(keys::ImageKey(begun, 0), catalog_->owner(), object.size()).value();
    PartRecord part{begun, 1, std::vector<ImageEntry>(1), {}};
    ASSERT_TRUE(testing::WriteImage(*writer, image, object, &part.images.front()).ok());

    ASSERT_TRUE(fs_.Rename("/store", "/away").ok());
    const std::string_view now = instead;
    if (now != "nothing") {
      ASSERT_TRUE(fs_.Mkdir("/store").ok());
    }
    const auto other = MakePosixStore(fs_, {.path = "/store"});
    if (now == "another store") {
      ASSERT_TRUE(Catalog::OpenOrCreate(*other, {"node2", 1, "agent"}).ok());
    }
    const Code code = now == "another store" ? Code::kMismatch : Code::kUnavailable;
    ObjectWriter* const pointer = writer.get();
    const PublishOutcome lost = PublishImages(*catalog_, std::span(&pointer, 1), part);
    EXPECT_EQ(lost.images.front().code(), code) << lost.images.front().ToString();
    EXPECT_FALSE(lost.finish.complete);
    EXPECT_EQ(PrepareGeneration(*catalog_, At(version + 100)).code(), code);
    EXPECT_EQ(CommitPart(*catalog_, part).status().code(), code);
    const RestoredRecord origin{At(version), 1, static_cast<uint32_t>(version) + 1, 0};
    EXPECT_EQ(catalog_->NoteRestored(origin).code(), code);
    EXPECT_EQ(fs_.Stat("/store").ok(), now != "nothing");
    const auto made = fs_.List("/store");
    EXPECT_EQ(made.ok() ? made->size() : 0u, now == "another store" ? 1u : 0u) << "something was made there";

    if (now != "nothing") {
      ASSERT_TRUE(os::RemoveTree(fs_, "/store").ok());
    }
    ASSERT_TRUE(fs_.Rename("/away", "/store").ok());
    const PublishOutcome back = PublishImages(*catalog_, std::span(&pointer, 1), part);
    EXPECT_TRUE(back.images.front().ok()) << back.images.front().ToString();
    EXPECT_TRUE(back.finish.complete) << back.commit.ToString();
    EXPECT_TRUE(CheckVersion(*catalog_, begun).ok());
  }
}

// It goes between the objects and their records.
TEST_F(CatalogTest, AStoreThatGoesWhileAVersionIsCommittedHasNotGotIt) {
  options_.ranks = 1;
  ASSERT_TRUE(PrepareGeneration(*catalog_, At(1)).ok());
  Buffer object;
  const ImageRecord image = testing::MakeImage({At(1), 0, 1}, options_, &object);
  auto writer = store_->CreateObject(keys::ImageKey(At(1), 0), catalog_->owner(), object.size()).value();
  PartRecord part{At(1), 1, std::vector<ImageEntry>(1), {}};
  ASSERT_TRUE(testing::WriteImage(*writer, image, object, &part.images.front()).ok());
  ASSERT_TRUE(writer->Commit().ok());
  ASSERT_TRUE(fs_.Rename("/store", "/away").ok());
  const Status status = CommitPart(*catalog_, part).status();
  EXPECT_EQ(status.code(), Code::kUnavailable) << "not that the version was removed: " << status.ToString();
  ASSERT_TRUE(fs_.Rename("/away", "/store").ok());
  EXPECT_TRUE(CommitPart(*catalog_, part)->complete);
}

// It goes between the look whether it is there and the first record of a name, and leaves an empty folder behind.
TEST_F(CatalogTest, ANameThatWentWhereTheStoreWasIsNotTakenForNoted) {
  ASSERT_TRUE(fs_.Rename("/store", "/away").ok());
  ASSERT_TRUE(fs_.Mkdir("/store").ok());
  EXPECT_EQ(catalog_->EnsureJob("job").code(), Code::kUnavailable);
  EXPECT_EQ(catalog_->EnsureName("job", "wave").code(), Code::kUnavailable);
  ASSERT_TRUE(os::RemoveTree(fs_, "/store").ok());
  ASSERT_TRUE(fs_.Rename("/away", "/store").ok());
  ASSERT_TRUE(catalog_->EnsureJob("job").ok());
  ASSERT_TRUE(catalog_->EnsureName("job", "wave").ok());
  EXPECT_EQ(catalog_->Names("job", nullptr).value(), std::vector<std::string>{"wave"});
}

TEST_F(CatalogTest, ADamagedStoreRecordIsRefusedNotReplaced) {
  for (const Buffer& bytes : {Buffer{}, Buffer(100)}) {
    ASSERT_TRUE(store_->Replace("kedge-store", bytes, {}, Folders::kMustExist).ok());
    const Status status = Catalog::OpenOrCreate(*store_, {}).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << status.ToString();
    EXPECT_NE(status.message().find("/store/kedge-store"), std::string::npos) << status.message();
  }
}

TEST_F(CatalogTest, ThatAVersionWasSafeIsNotedOnceAndStays) {
  EXPECT_FALSE(FindReached(*catalog_, "job", "wave").value().has_value());
  ASSERT_TRUE(NoteReached(*catalog_, At(3)).ok());
  ASSERT_TRUE(NoteReached(*catalog_, At(4)).ok());
  EXPECT_EQ(FindReached(*catalog_, "job", "wave").value()->generation, At(3));
  EXPECT_FALSE(FindReached(*catalog_, "job", "another").value().has_value());
  EXPECT_TRUE(ListVersions(*catalog_, "job", "wave").value().empty()) << "it is no version";
  const GarbageReport report = CollectGarbage(*catalog_, {}).value();
  EXPECT_TRUE(report.problems.empty());
  EXPECT_TRUE(FindReached(*catalog_, "job", "wave").value().has_value());
}

TEST_F(CatalogTest, RealNamesComeBackWhateverTheyAre) {
  const std::vector<std::string> names = {"..", ".", "a.b/c*[x]", std::string(1000, 'n'), "\xc3\xbc", "plain", " "};
  for (const std::string& name : names) {
    const Status status = TakeVersion(*catalog_, At(1, 1, 1, name), options_);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(CheckVersion(*catalog_, At(1, 1, 1, name)).ok());
  }
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> skipped;
  EXPECT_EQ(catalog_->Names("job", &skipped).value(), sorted);
  EXPECT_EQ(catalog_->Jobs(&skipped).value(), std::vector<std::string>{"job"});
  EXPECT_TRUE(skipped.empty());
  EXPECT_EQ(catalog_->EnsureName("job", "").code(), Code::kInvalidArgument);
  EXPECT_EQ(catalog_->EnsureName("job", std::string(1024, 'n')).code(), Code::kInvalidArgument);
  EXPECT_EQ(catalog_->EnsureJob(std::string("a\0b", 3)).code(), Code::kInvalidArgument);
}

TEST_F(CatalogTest, AFolderOfAnotherNameIsRefused) {
  ASSERT_TRUE(catalog_->EnsureJob("job").ok());
  // As a collision of hashes would: the folder of "other" holds the record of "job".
  ASSERT_TRUE(store_->MakeFolder(keys::JobFolder("other")).ok());
  const Buffer record = store_->Get(keys::JobKey("job"), 1000).value();
  ASSERT_TRUE(store_->Replace(keys::JobKey("other"), record, {}, Folders::kMustExist).ok());
  const Status status = catalog_->EnsureJob("other");
  EXPECT_EQ(status.code(), Code::kMismatch) << status.ToString();
  std::vector<std::string> skipped;
  EXPECT_EQ(catalog_->Jobs(&skipped).value(), std::vector<std::string>{"job"});
  EXPECT_EQ(skipped.size(), 1u);
}

TEST_F(CatalogTest, AVersionIsCompleteWithItsLastPart) {
  options_ = {.ranks = 5, .ranks_per_part = 2};
  EXPECT_EQ(InspectGeneration(*catalog_, At(1)).status().code(), Code::kNotFound);
  EXPECT_FALSE(PublishRanks(*catalog_, At(1), 2, 2, options_).value().complete);
  VersionInfo info = Inspect(At(1));
  EXPECT_FALSE(info.complete || info.finishable);
  EXPECT_EQ(info.ranks, 5u);
  EXPECT_EQ(info.missing_ranks, (std::vector<uint32_t>{0, 1, 4}));
  EXPECT_EQ(info.missing_count, 3u);
  EXPECT_NE(info.reason.find("3 of 5 images are missing, rank 0 first"), std::string::npos) << info.reason;
  EXPECT_EQ(PublishRanks(*catalog_, At(1), 0, 2, options_).value().missing_count, 1u);
  EXPECT_TRUE(Complete().empty());
  EXPECT_EQ(NewestAtOrBelow(*catalog_, "job", "wave", -1).status().code(), Code::kNotFound);
  const FinishOutcome outcome = PublishRanks(*catalog_, At(1), 4, 1, options_).value();
  EXPECT_TRUE(outcome.complete && outcome.created);
  info = Inspect(At(1));
  EXPECT_TRUE(info.complete);
  EXPECT_EQ(info.image_bytes, 5u * 5077);
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
  EXPECT_FALSE(FinishVersion(*catalog_, At(1)).value().created) << "again";
  EXPECT_EQ(ReadImage(*catalog_, At(1), 5).status().code(), Code::kNotFound);
}

TEST_F(CatalogTest, ListsNewestFirstAndFindsTheNewestAtOrBelow) {
  for (const int64_t version : {3, 10, 2}) Take(At(version));
  EXPECT_EQ(Complete(), (std::vector<int64_t>{10, 3, 2}));
  EXPECT_EQ(NewestAtOrBelow(*catalog_, "job", "wave", 9).value().generation.version, 3);
  EXPECT_EQ(NewestAtOrBelow(*catalog_, "job", "wave", 10).value().generation.version, 10);
  EXPECT_EQ(NewestAtOrBelow(*catalog_, "job", "wave", 1).status().code(), Code::kNotFound);
  EXPECT_EQ(NewestAtOrBelow(*catalog_, "job", "none", -1).status().code(), Code::kNotFound);
}

TEST_F(CatalogTest, ARetakenVersionIsNeverMixedWithTheEarlierOne) {
  Take(At(1, 1, 1));
  ASSERT_TRUE(PublishRanks(*catalog_, At(1, 2, 1), 0, 1, options_).ok());
  auto newest = NewestAtOrBelow(*catalog_, "job", "wave", -1).value();
  EXPECT_EQ(newest.generation.attempt, 1u) << "the other one is half done";
  EXPECT_TRUE(CheckVersion(*catalog_, newest.generation).ok());
  ASSERT_TRUE(PublishRanks(*catalog_, At(1, 2, 1), 1, 1, options_).ok());
  newest = NewestAtOrBelow(*catalog_, "job", "wave", -1).value();
  EXPECT_EQ(newest.generation.attempt, 2u);
  EXPECT_TRUE(Inspect(At(1, 1, 1)).complete);
  const auto all = ListVersions(*catalog_, "job", "wave").value();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_FALSE(all[0].superseded);
  EXPECT_TRUE(all[1].superseded);
  RetentionReport report;
  ASSERT_TRUE(Retain(5, &report).ok());
  EXPECT_EQ(report.removed, std::vector<Generation>{At(1, 1, 1)});
}

TEST_F(CatalogTest, RanksThatTookDifferentVersionsAreNamed) {
  ASSERT_TRUE(PublishRanks(*catalog_, At(10, 1, 3), 0, 1, options_).ok());
  EXPECT_TRUE(FindDisagreement(*catalog_, At(10, 1, 3)).ok()) << "the other may be late";
  // Another attempt, another number, another name: nothing of it is a contradiction.
  ASSERT_TRUE(PublishRanks(*catalog_, At(11, 2, 3), 1, 1, options_).ok());
  ASSERT_TRUE(PublishRanks(*catalog_, At(12, 1, 4), 1, 1, options_).ok());
  ASSERT_TRUE(PublishRanks(*catalog_, At(13, 1, 3, "other"), 1, 1, options_).ok());
  EXPECT_TRUE(FindDisagreement(*catalog_, At(10, 1, 3)).ok());
  ASSERT_TRUE(PublishRanks(*catalog_, At(11, 1, 3), 1, 1, options_).ok());
  for (const Generation& generation : {At(10, 1, 3), At(11, 1, 3)}) {
    const Status status = FindDisagreement(*catalog_, generation);
    EXPECT_EQ(status.code(), Code::kMismatch);
    EXPECT_EQ(status.message().find("checkpoint 3 of 'wave' in attempt 1 is version 10 on rank 0 and version 11 on rank 1"), 0u)
        << status.message();
  }
  int disagreed = 0;
  for (const VersionInfo& info : ListVersions(*catalog_, "job", "wave").value()) {
    const bool is_one = info.generation == At(10, 1, 3) || info.generation == At(11, 1, 3);
    EXPECT_EQ(info.reason.find("rank 1") != std::string::npos && info.reason.find("version 10") != std::string::npos, is_one)
        << info.reason;
    disagreed += is_one ? 1 : 0;
  }
  EXPECT_EQ(disagreed, 2);
}

TEST_F(CatalogTest, WhatIsNotWantedIsNotLookedAt) {
  options_.ranks = 1;
  for (int64_t version = 1; version <= 4; ++version) Take(At(version));
  fs_.faults().Add({.path_contains = keys::GenerationFolder(At(2)), .count = os::testing::kForEver, .errno_value = EIO});
  EXPECT_FALSE(ListVersions(*catalog_, "job", "wave").ok());
  const auto newer = ListVersions(*catalog_, "job", "wave", [](const Generation& generation) { return generation.version >= 3; });
  ASSERT_TRUE(newer.ok()) << newer.status().ToString();
  ASSERT_EQ(newer->size(), 2u);
  EXPECT_EQ(newer->front().generation, At(4));
  EXPECT_TRUE(newer->front().complete);
}

TEST_F(CatalogTest, PartsPublishedAgainDifferentlyStillCount) {
  options_ = {.ranks = 4, .ranks_per_part = 4};
  ASSERT_TRUE(PublishRanks(*catalog_, At(1), 1, 2, options_).ok());
  ASSERT_TRUE(PublishRanks(*catalog_, At(1), 1, 2, options_).ok()) << "the same again";
  EXPECT_TRUE(PublishRanks(*catalog_, At(1), 0, 4, options_).value().complete);
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
}

TEST_F(CatalogTest, PartsOfAnotherNumberOfRanksAreRefused) {
  ASSERT_TRUE(PublishRanks(*catalog_, At(1), 0, 1, options_).ok());
  options_.ranks = 3;
  EXPECT_EQ(PublishRanks(*catalog_, At(1), 0, 1, options_).status().code(), Code::kMismatch);
  EXPECT_EQ(PublishRanks(*catalog_, At(1), 1, 2, options_).status().code(), Code::kMismatch);
  EXPECT_FALSE(Inspect(At(1)).finishable);
}

TEST_F(CatalogTest, PartsThatBreakTheRulesAreRefused) {
  ASSERT_TRUE(PrepareGeneration(*catalog_, At(1)).ok());
  PartRecord part{At(1), 2, {}, {}};
  EXPECT_EQ(PublishPart(*catalog_, part).code(), Code::kInvalidArgument);
  part.images = {{1, "data/r1", 0, 0, 0, 0}, {0, "data/r0", 0, 0, 0, 0}};
  EXPECT_EQ(PublishPart(*catalog_, part).code(), Code::kInvalidArgument);
  part.images = {{2, "data/r2", 0, 0, 0, 0}};
  EXPECT_EQ(PublishPart(*catalog_, part).code(), Code::kInvalidArgument);
  part.images = {{1, "data/r1", 0, 0, 0, 0}};
  part.generation.store_id = {.high = 1, .low = 1};
  EXPECT_EQ(PublishPart(*catalog_, part).code(), Code::kMismatch);
  EXPECT_EQ(PrepareGeneration(*catalog_, part.generation).code(), Code::kMismatch);
}

TEST_F(CatalogTest, PartsWithoutTheirObjectsDoNotMakeAVersion) {
  ASSERT_TRUE(PublishRanks(*catalog_, At(1), 0, 1, options_).ok());
  ASSERT_TRUE(store_->Remove(keys::ImageKey(At(1), 0)).ok());
  EXPECT_EQ(PublishRanks(*catalog_, At(1), 1, 1, options_).status().code(), Code::kNotFound);
  EXPECT_FALSE(Inspect(At(1)).complete);
}

TEST_F(CatalogTest, WhatWasRemovedDoesNotComeBackInPart) {
  options_ = {.ranks = 1, .ranks_per_part = 1};
  Take(At(1));
  const PartRecord part = ReadParts(*catalog_, At(1), nullptr)->front();
  ASSERT_TRUE(store_->RemoveFolder(keys::GenerationFolder(At(1)), keys::VersionKey(At(1)), {}).ok());
  EXPECT_EQ(PublishPart(*catalog_, part).code(), Code::kNotFound);
  EXPECT_EQ(FinishVersion(*catalog_, At(1)).status().code(), Code::kNotFound);
  EXPECT_EQ(store_->List(keys::GenerationFolder(At(1))).status().code(), Code::kNotFound);
}

TEST_F(CatalogTest, DamagedVersionRecordsAreMadeAnewFromTheParts) {
  Take(At(1));
  const std::string key = keys::VersionKey(At(1));
  Buffer damaged = store_->Get(key, 10000).value();
  damaged[50] ^= std::byte{1};
  for (const Buffer& bytes : {Buffer{}, Buffer(damaged.begin(), damaged.begin() + 30), damaged}) {
    ASSERT_TRUE(Overwrite(key, bytes).ok());
    const VersionInfo info = Inspect(At(1));
    EXPECT_FALSE(info.complete || info.unknown);
    EXPECT_TRUE(info.finishable);
    EXPECT_NE(info.reason.find("version record"), std::string::npos) << info.reason;
    EXPECT_TRUE(FinishVersion(*catalog_, At(1)).value().created);
    EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
  }
}

TEST_F(CatalogTest, DamagedPartsMakeTheVersionIncompleteAndCanBePublishedAgain) {
  Take(At(1));
  const std::string key = keys::PartKey(At(1), 0, 1);
  Buffer damaged = store_->Get(key, 10000).value();
  damaged.back() ^= std::byte{1};
  ASSERT_TRUE(Overwrite(key, damaged).ok());
  EXPECT_EQ(ReadImage(*catalog_, At(1), 0).status().code(), Code::kCorrupt);
  EXPECT_TRUE(ReadImage(*catalog_, At(1), 1).ok());
  ASSERT_TRUE(store_->Remove(keys::VersionKey(At(1))).ok());
  EXPECT_FALSE(Inspect(At(1)).finishable);
  EXPECT_TRUE(PublishRanks(*catalog_, At(1), 0, 1, options_).value().complete);
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
}

TEST_F(CatalogTest, AMissingPartMakesTheVersionIncomplete) {
  Take(At(1));
  ASSERT_TRUE(store_->Remove(keys::PartKey(At(1), 1, 1)).ok());
  const VersionInfo info = Inspect(At(1));
  EXPECT_FALSE(info.complete);
  EXPECT_NE(info.reason.find("1-1 is gone"), std::string::npos) << info.reason;
}

TEST_F(CatalogTest, ForeignAndNewerRecordsAreLeftAlone) {
  Take(At(1));
  Take(At(2));
  Take(At(3));
  // A version brought here from another store by hand, and one that a later Kedge wrote.
  const auto other_store = MakePosixStore(fs_, {.path = "/other"});
  const Catalog other = Catalog::OpenOrCreate(*other_store, {}).value();
  Generation foreign = At(1);
  foreign.store_id = other.id();
  ASSERT_TRUE(TakeVersion(other, foreign, options_).ok());
  ASSERT_TRUE(Overwrite(keys::VersionKey(At(1)), other_store->Get(keys::VersionKey(foreign), 10000).value()).ok());
  VersionInfo info = Inspect(At(1));
  EXPECT_FALSE(info.complete);
  EXPECT_TRUE(info.unknown && info.foreign);
  EXPECT_NE(info.reason.find("belongs to store " + other.id().ToHex()), std::string::npos) << info.reason;
  EXPECT_TRUE(Retain(1).ok()) << "what is foreign does not exist here";
  EXPECT_EQ(RemoveVersion(*catalog_, At(1), {}).code(), Code::kUnsupported);
  EXPECT_EQ(Complete(), std::vector<int64_t>{3});
  EXPECT_TRUE(store_->List(keys::GenerationFolder(At(1))).ok()) << "but is not removed";
}

TEST_F(CatalogTest, AnImageSaysWhatIsWrongWithIt) {
  Take(At(1));
  const std::string key = keys::ImageKey(At(1), 0);
  const StoredImage image = ReadImage(*catalog_, At(1), 0).value();
  const auto rewrite = [&](size_t cut, std::optional<size_t> flip) {
    Buffer bytes(image.entry.record_offset + image.entry.record_bytes);
    ASSERT_TRUE(store_->OpenObject(keys::ImageKey(At(1), 1)).value()->ReadAt(0, std::span(bytes).first(10)).ok());
    ASSERT_TRUE(store_->OpenObject(key).value()->ReadAt(0, bytes).ok());
    if (flip) bytes[*flip] ^= std::byte{4};
    const auto writer = store_->CreateObject(key, {}, 0);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->WriteAt(0, ByteSpan(bytes).first(bytes.size() - cut)).ok());
    ASSERT_TRUE((*writer)->Commit().ok());
  };
  rewrite(0, image.entry.record_offset + 60);
  EXPECT_EQ(ReadImage(*catalog_, At(1), 0).status().code(), Code::kCorrupt);
  rewrite(0, image.entry.record_offset + 60);
  EXPECT_TRUE(ReadImage(*catalog_, At(1), 0).ok());
  rewrite(1, std::nullopt);
  const Status cut = ReadImage(*catalog_, At(1), 0).status();
  EXPECT_EQ(cut.code(), Code::kCorrupt);
  EXPECT_NE(cut.message().find("/store/" + key), std::string::npos) << cut.message();
  ASSERT_TRUE(store_->Remove(key).ok());
  EXPECT_EQ(ReadImage(*catalog_, At(1), 0).status().code(), Code::kNotFound);
}

TEST_F(CatalogTest, RetentionKeepsTheNewestAndThePinned) {
  for (int64_t version = 1; version <= 6; ++version) Take(At(version));
  Take(At(1, 1, 1, "other"));
  ASSERT_TRUE(PinVersion(*catalog_, At(2)).ok());
  ASSERT_TRUE(PinVersion(*catalog_, At(6)).ok());
  ASSERT_TRUE(PinVersion(*catalog_, At(6)).ok()) << "again";
  in_use_ = {At(1)};
  RetentionReport report;
  ASSERT_TRUE(Retain(2, &report).ok());
  EXPECT_EQ(report.removed, std::vector<Generation>{At(3)});
  EXPECT_TRUE(report.waits) << "nobody looks again when what is in use comes free";
  EXPECT_EQ(Complete(), (std::vector<int64_t>{6, 5, 4, 2, 1})) << "pinned ones do not count";
  in_use_.clear();
  for (const int64_t pinned : {2, 6}) ASSERT_TRUE(UnpinVersion(*catalog_, At(pinned)).ok());
  ASSERT_TRUE(Retain(0).ok());
  EXPECT_EQ(Complete(), std::vector<int64_t>{6}) << "the last one stays, whatever keep says";
  EXPECT_EQ(Complete("other"), std::vector<int64_t>{1});
  for (const int64_t version : Complete()) EXPECT_TRUE(CheckVersion(*catalog_, At(version)).ok());
}

TEST_F(CatalogTest, RetentionLeavesWhatIsIncomplete) {
  Take(At(1));
  ASSERT_TRUE(PublishRanks(*catalog_, At(2), 0, 1, options_).ok());
  Take(At(3));
  ASSERT_TRUE(Retain(1).ok());
  EXPECT_EQ(Complete(), std::vector<int64_t>{3});
  EXPECT_TRUE(PublishRanks(*catalog_, At(2), 1, 1, options_).value().complete) << "it was under way";
}

TEST_F(CatalogTest, OnlyCompleteVersionsArePinned) {
  ASSERT_TRUE(PublishRanks(*catalog_, At(1), 0, 1, options_).ok());
  EXPECT_EQ(PinVersion(*catalog_, At(1)).code(), Code::kFailedPrecondition);
  EXPECT_EQ(PinVersion(*catalog_, At(2)).code(), Code::kNotFound);
  EXPECT_EQ(UnpinVersion(*catalog_, At(2)).code(), Code::kNotFound);
  EXPECT_FALSE(Inspect(At(1)).pinned);
}

TEST_F(CatalogTest, RemovingOneVersionRefusesWhatMustStay) {
  Take(At(1));
  EXPECT_EQ(RemoveVersion(*catalog_, At(1), {}).code(), Code::kFailedPrecondition);
  Take(At(2));
  ASSERT_TRUE(PinVersion(*catalog_, At(1)).ok());
  EXPECT_EQ(RemoveVersion(*catalog_, At(1), {}).code(), Code::kBusy);
  ASSERT_TRUE(UnpinVersion(*catalog_, At(1)).ok());
  EXPECT_EQ(RemoveVersion(*catalog_, At(1), {1, {At(1)}}).code(), Code::kBusy);
  EXPECT_TRUE(RemoveVersion(*catalog_, At(1), {}).ok());
  EXPECT_EQ(RemoveVersion(*catalog_, At(1), {}).code(), Code::kNotFound);
  EXPECT_EQ(Complete(), std::vector<int64_t>{2});
}

// Version 2's only image has its one block in version 1's object.
TEST_F(CatalogTest, ObjectsStayWhileAnotherVersionRefersToThem) {
  options_ = {.ranks = 1, .ranks_per_part = 1, .region_bytes = {3000}};
  Take(At(1));
  const auto bytes_of = [&](int64_t version) {
    const StoredImage image = ReadImage(*catalog_, At(version), 0).value();
    Buffer bytes(100);
    EXPECT_TRUE(OpenChunkObject(*catalog_, image, image.record.chunks[0]).value()->ReadAt(0, bytes).ok());
    return bytes;
  };
  const Buffer first = bytes_of(1);
  ASSERT_TRUE(testing::TakeOnTop(*catalog_, At(2), At(1)).ok());
  EXPECT_EQ(bytes_of(2), first);
  RetentionReport report;
  ASSERT_TRUE(Retain(1, &report).ok());
  EXPECT_TRUE(report.removed.empty());
  EXPECT_EQ(report.emptied, std::vector<Generation>{At(1)});
  EXPECT_EQ(Complete(), std::vector<int64_t>{2});
  EXPECT_EQ(bytes_of(2), first);
  EXPECT_TRUE(Inspect(At(1)).removed);
  EXPECT_EQ(FinishVersion(*catalog_, At(1)).status().code(), Code::kNotFound) << "it does not come back";
  EXPECT_EQ(PublishRanks(*catalog_, At(1), 0, 1, options_).status().code(), Code::kNotFound);
  Take(At(3));
  ASSERT_TRUE(Retain(1, &(report = {})).ok());
  EXPECT_EQ(Complete(), std::vector<int64_t>{3});
  EXPECT_EQ(report.removed, (std::vector<Generation>{At(2), At(1)})) << "what refers goes first";
  EXPECT_EQ(store_->List(keys::GenerationFolder(At(1))).status().code(), Code::kNotFound);
}

// A job that goes back: what is of its lineage, and what it has left behind.
class GoingBackTest : public CatalogTest {
 protected:
  // Its owner has ended, or is gone.
  void Launch(uint32_t attempt) {
    ASSERT_TRUE(catalog_->EnsureJob("job").ok());
    AttemptRequest request = RequestOfThisProcess("job", 60, options_.ranks);
    const Buffer record = Encoded(RecordOf(request, catalog_->id(), attempt));
    ASSERT_TRUE(store_->PutIfAbsent(keys::AttemptKey("job", attempt), record, {}, Folders::kCreate).ok());
    catalog_ = catalog_->WithOwner({"node1", attempt, "agent"});
  }
  void Restore(uint32_t attempt, const Generation& origin, uint32_t take = 1) {
    ASSERT_TRUE(catalog_->NoteRestored({origin, attempt, take, 1}).ok());
  }
  std::vector<Generation> All() {
    std::vector<Generation> all;
    const auto versions = ListVersions(*catalog_, "job", "wave");
    EXPECT_TRUE(versions.ok()) << versions.status().ToString();
    for (const VersionInfo& info : *versions) all.push_back(info.generation);
    return all;
  }
  // Four more attempts take versions of the name, whole or not, with restarts in between, and some are marked removed.
  void LiveAtRandom(const std::string& name, Random* random) {
    std::vector<Generation> whole;
    for (int launches = 0; launches < 4; ++launches) {
      Launch(++attempts_);
      const uint64_t takes = 1 + random->Below(3);
      for (uint32_t take = 1; take <= takes; ++take) {
        if (!whole.empty() && random->Below(3) == 0) Restore(attempts_, whole[random->Below(whole.size())], take);
        const Generation generation = At(static_cast<int64_t>(random->Below(6)), attempts_, take, name);
        const bool is_whole = random->Below(3) > 0;
        ASSERT_TRUE(PublishRanks(*catalog_, generation, 0, is_whole ? options_.ranks : 1, options_).ok());
        if (is_whole) whole.push_back(generation);
        if (random->Below(6) > 0) continue;
        const Buffer mark = Encoded(RemovedRecord{generation, 1});
        ASSERT_TRUE(store_->PutIfAbsent(keys::RemovedKey(generation), mark, {}, Folders::kMustExist).ok());
      }
    }
  }

  uint32_t attempts_ = 0;
};

TEST_F(GoingBackTest, WhatItWentBackFromIsNeverTheNewest) {
  Launch(1);
  for (const int64_t version : {30, 40, 50}) Take(At(version));
  Launch(2);
  Restore(2, At(40));
  EXPECT_EQ(Complete(), (std::vector<int64_t>{40, 30})) << "before anything else was taken";
  Take(At(42, 2));
  Take(At(44, 2));
  EXPECT_EQ(Complete(), (std::vector<int64_t>{44, 42, 40, 30}));
  EXPECT_EQ(NewestAtOrBelow(*catalog_, "job", "wave", 60)->generation, At(44, 2));
  const auto all = ListVersions(*catalog_, "job", "wave").value();
  EXPECT_TRUE(all.front().generation == At(50) && all.front().complete && all.front().abandoned);
  EXPECT_TRUE(CheckVersion(*catalog_, At(50)).ok()) << "whoever names it gets it";
}

TEST_F(GoingBackTest, TheNewestIsFoundWithoutALookIntoWhatIsOlderOrAbandoned) {
  Launch(1);
  for (const int64_t version : {30, 40, 50}) Take(At(version));
  Launch(2);
  Restore(2, At(40));
  Take(At(42, 2));
  ASSERT_TRUE(PublishRanks(*catalog_, At(44, 2), 0, 1, options_).ok());
  for (const char* folder : {"/30-1-1", "/40-1-1", "/50-1-1"}) {
    os::testing::FaultRule unreadable;
    unreadable.path_contains = folder;
    unreadable.errno_value = EIO;
    unreadable.count = os::testing::kForEver;
    fs_.faults().Add(unreadable);
  }
  EXPECT_EQ(CompleteVersions(*catalog_, "job", "wave", -1).status().code(), Code::kIo);
  const auto newest = NewestAtOrBelow(*catalog_, "job", "wave", -1);
  ASSERT_TRUE(newest.ok()) << newest.status().ToString();
  EXPECT_EQ(newest->generation, At(42, 2));
}

// Whatever came to pass: of those that are complete and of the lineage it is the first.
TEST_F(GoingBackTest, TheNewestIsTheFirstOfAllThatAreComplete) {
  Random random(1);
  for (uint32_t life = 0; life < 300; ++life) {
    SCOPED_TRACE(life);
    const std::string name = "wave" + std::to_string(life);
    LiveAtRandom(name, &random);
    for (int64_t at_most = -1; at_most < 6; ++at_most) {
      const auto complete = CompleteVersions(*catalog_, "job", name, at_most);
      const auto newest = NewestAtOrBelow(*catalog_, "job", name, at_most);
      ASSERT_TRUE(complete.ok()) << complete.status().ToString();
      ASSERT_EQ(newest.status().code(), complete->empty() ? Code::kNotFound : Code::kOk) << newest.status().ToString();
      if (complete->empty()) continue;
      EXPECT_EQ(newest->generation.ToString(), complete->front().generation.ToString()) << at_most;
    }
  }
}

TEST_F(GoingBackTest, RetentionCountsTheLineageAndRemovesTheRestInItsTime) {
  Launch(1);
  for (const int64_t version : {30, 40, 50}) Take(At(version));
  Launch(2);
  Restore(2, At(40));
  Take(At(42, 2));
  ASSERT_TRUE(Retain(2).ok());
  EXPECT_EQ(All(), (std::vector<Generation>{At(50), At(42, 2), At(40)})) << "only one version is as safe as 50 was";
  Take(At(44, 2));
  ASSERT_TRUE(Retain(2).ok());
  EXPECT_EQ(All(), (std::vector<Generation>{At(44, 2), At(42, 2)}));
  // An agent that comes back late, and that looked before there was a second attempt.
  ASSERT_TRUE(store_->Remove(keys::AttemptKey("job", 2)).ok());
  Take(At(50));
  Launch(2);
  EXPECT_EQ(Complete(), (std::vector<int64_t>{44, 42}));
  ASSERT_TRUE(Retain(2).ok());
  EXPECT_EQ(All(), (std::vector<Generation>{At(44, 2), At(42, 2)}));
}

TEST_F(GoingBackTest, APinnedVersionStaysAbandonedOrNot) {
  Launch(1);
  for (const int64_t version : {30, 40, 50}) Take(At(version));
  ASSERT_TRUE(PinVersion(*catalog_, At(50)).ok());
  Launch(2);
  Restore(2, At(40));
  Take(At(42, 2));
  Take(At(44, 2));
  ASSERT_TRUE(Retain(1).ok());
  EXPECT_EQ(All(), (std::vector<Generation>{At(50), At(44, 2)}));
  EXPECT_EQ(Complete(), std::vector<int64_t>{44});
}

TEST_F(GoingBackTest, TheLastVersionOfTheLineageIsNotRemovedForAnAbandonedOne) {
  Launch(1);
  Take(At(40));
  Take(At(50));
  Launch(2);
  Restore(2, At(40));
  EXPECT_EQ(RemoveVersion(*catalog_, At(40), {}).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(RemoveVersion(*catalog_, At(50), {}).ok());
}

TEST_F(GoingBackTest, ARetakenVersionOfALeftRunIsNotTheVersion) {
  Launch(1);
  for (const int64_t version : {30, 40, 50}) Take(At(version));
  Launch(2);
  Restore(2, At(30));
  Take(At(40, 2));
  Take(At(50, 2));
  Launch(3);
  Restore(3, At(50));  // asked for by attempt: the second one's way was wrong
  EXPECT_EQ(NewestAtOrBelow(*catalog_, "job", "wave", -1)->generation, At(50));
  EXPECT_EQ(NewestAtOrBelow(*catalog_, "job", "wave", 45)->generation, At(40));
}

TEST_F(GoingBackTest, AVersionThatIsAbandonedIsNotPublishedAnyMore) {
  Launch(1);
  Take(At(30));
  Take(At(40));
  ASSERT_TRUE(PublishRanks(*catalog_, At(35), 0, 1, options_).ok());
  ASSERT_TRUE(PublishRanks(*catalog_, At(50), 0, 1, options_).ok());
  const Catalog late = *catalog_;
  Launch(2);
  EXPECT_TRUE(PublishRanks(late, At(45), 0, 2, options_)->complete) << "the new attempt may yet go on from it";
  Restore(2, At(40));
  const Status status = PublishRanks(late, At(50), 1, 1, options_).status();
  EXPECT_EQ(status.code(), Code::kBusy) << status.ToString();
  EXPECT_NE(status.message().find("version 50 (attempt 1, take 1) is abandoned"), std::string::npos) << status.message();
  EXPECT_TRUE(PublishRanks(late, At(35), 1, 1, options_)->complete) << "it is of the lineage";
  EXPECT_EQ(Complete(), (std::vector<int64_t>{40, 35, 30}));
}

TEST_F(GoingBackTest, WhatComesTooLateLeavesNothingBehind) {
  Launch(1);
  for (const int64_t version : {30, 40}) Take(At(version));
  const Catalog late = *catalog_;
  Launch(2);
  Restore(2, At(40));
  EXPECT_EQ(PublishRanks(late, At(45), 0, 1, options_).status().code(), Code::kBusy);
  EXPECT_FALSE(Inspect(At(45)).removed) << "nothing has taken its place, and the next retention finds it";
  Take(At(50, 2));
  ASSERT_TRUE(ApplyRetention(*catalog_, "job", "wave", {3, {}}, nullptr).ok());
  // That retention was the last.
  EXPECT_EQ(PublishRanks(late, At(46), 0, 1, options_).status().code(), Code::kBusy);
  EXPECT_EQ(PublishRanks(late, At(60), 0, 2, options_).status().code(), Code::kBusy) << "all parts, but abandoned";
  ASSERT_TRUE(PublishRanks(late, At(35), 0, 1, options_).ok()) << "it is of the lineage";
  EXPECT_TRUE(PublishRanks(late, At(36), 0, 2, options_)->complete);
  std::vector<int64_t> left;
  for (const Generation& generation : ListGenerations(*catalog_, "job", "wave").value()) left.push_back(generation.version);
  EXPECT_EQ(left, (std::vector<int64_t>{30, 36, 40, 50}));
}

TEST_F(GoingBackTest, WhoWasTakenOverFromRemovesNothing) {
  Launch(1);
  for (const int64_t version : {30, 40, 50}) Take(At(version));
  const Catalog late = *catalog_;
  Launch(2);
  EXPECT_EQ(ApplyRetention(late, "job", "wave", {1, {}}, nullptr).code(), Code::kBusy);
  EXPECT_EQ(RemoveVersion(late, At(40), {}).code(), Code::kBusy);
  EXPECT_EQ(Complete(), (std::vector<int64_t>{50, 40, 30}));
}

TEST_F(GoingBackTest, WhatDeadAttemptsLeftIncompleteGoesWithoutGc) {
  Launch(1);
  Take(At(10));
  for (const int64_t version : {20, 99}) ASSERT_TRUE(PublishRanks(*catalog_, At(version), 0, 1, options_).ok());
  Launch(2);
  Restore(2, At(10));
  Take(At(30, 2));
  ASSERT_TRUE(PublishRanks(*catalog_, At(35, 2), 0, 1, options_).ok());
  EXPECT_EQ(All(), (std::vector<Generation>{At(99), At(35, 2), At(30, 2), At(20), At(10)}));
  ASSERT_TRUE(Retain(2).ok());
  EXPECT_EQ(All(), (std::vector<Generation>{At(35, 2), At(30, 2), At(10)}));
  Take(At(40, 2));
  ASSERT_TRUE(Retain(2).ok());
  EXPECT_EQ(All(), (std::vector<Generation>{At(40, 2), At(35, 2), At(30, 2)})) << "the attempt of 35 may be at work on it";
}

// Below the newest is what comes before it in the order of generations, of an equal number, too.
TEST_F(GoingBackTest, AnIncompleteTakingOfTheNewestVersionItselfGoesToo) {
  Launch(1);
  ASSERT_TRUE(PublishRanks(*catalog_, At(1), 0, 1, options_).ok());
  Launch(2);  // finds nothing to restart from, and begins anew
  ASSERT_TRUE(PublishRanks(*catalog_, At(1, 2, 1), 0, 1, options_).ok());
  Take(At(1, 2, 2));
  ASSERT_TRUE(PublishRanks(*catalog_, At(1, 2, 3), 0, 1, options_).ok());
  ASSERT_TRUE(MarkDraining(*catalog_, "job", 2).ok());
  Launch(3);
  testing::ManualClock clock;
  LeaseWatch watch(clock);
  RetentionOptions options;
  options.watch = &watch;
  RetentionReport report;
  ASSERT_TRUE(ApplyRetention(*catalog_, "job", "wave", options, &report).ok());
  EXPECT_TRUE(report.waits) << "the second attempt may carry its first taking";
  EXPECT_EQ(All(), (std::vector<Generation>{At(1, 2, 3), At(1, 2, 2), At(1, 2, 1)}));
  clock.Advance(std::chrono::seconds(61));
  ASSERT_TRUE(ApplyRetention(*catalog_, "job", "wave", options, &report).ok());
  EXPECT_FALSE(report.waits);
  EXPECT_EQ(All(), (std::vector<Generation>{At(1, 2, 3), At(1, 2, 2)})) << "what is above the newest stays";
}

// Also where the next attempt completes nothing in the store; but not before nobody works on it.
TEST_F(GoingBackTest, WhatAnAttemptThatIsOverLeftIncompleteGoesToo) {
  Launch(1);
  ASSERT_TRUE(PublishRanks(*catalog_, At(20), 0, 1, options_).ok());
  Take(At(30));
  ASSERT_TRUE(PublishRanks(*catalog_, At(35), 0, 1, options_).ok());
  ASSERT_TRUE(MarkDraining(*catalog_, "job", 1).ok());
  Launch(2);
  testing::ManualClock clock;
  LeaseWatch watch(clock);
  RetentionOptions options;
  options.watch = &watch;
  RetentionReport report;
  ASSERT_TRUE(ApplyRetention(*catalog_, "job", "wave", options, &report).ok());
  EXPECT_TRUE(report.waits) << "its agents may carry it";
  EXPECT_EQ(All(), (std::vector<Generation>{At(35), At(30), At(20)}));
  clock.Advance(std::chrono::seconds(61));
  ASSERT_TRUE(ApplyRetention(*catalog_, "job", "wave", options, &report).ok());
  EXPECT_FALSE(report.waits);
  EXPECT_EQ(All(), (std::vector<Generation>{At(35), At(30)})) << "35 is above the newest that is complete";
}

TEST_F(GoingBackTest, AnOriginThatCannotBeReadIsNotTakenForNone) {
  Launch(1);
  for (const int64_t version : {30, 40, 50}) Take(At(version));
  Launch(2);
  Restore(2, At(40));
  const std::string key = keys::RestoredKey("job", "wave", 2, 1);
  os::testing::FaultRule unreadable;
  unreadable.calls = os::testing::CallsOf(os::testing::Call::kPread);
  unreadable.path_contains = "restored-2-1";
  unreadable.errno_value = EIO;
  unreadable.count = os::testing::kForEver;
  fs_.faults().Add(unreadable);
  const Catalog reader = Catalog::Open(*store_, {"node2", 3, "r0"}).value();
  EXPECT_EQ(NewestAtOrBelow(reader, "job", "wave", -1).status().code(), Code::kIo);
  EXPECT_EQ(ApplyRetention(reader, "job", "wave", {1, {}}, nullptr).code(), Code::kIo);
  fs_.faults().Clear();
  EXPECT_EQ(NewestAtOrBelow(reader, "job", "wave", -1)->generation, At(40));
}

TEST_F(GoingBackTest, AnOriginThatIsAwaitedIsNotedBeforeAnythingIsPublished) {
  Launch(1);
  Take(At(40));
  Take(At(50));
  Launch(2);
  catalog_->AwaitRestored({At(40), 2, 1, 1});
  EXPECT_EQ(Complete(), (std::vector<int64_t>{50, 40}));
  ASSERT_TRUE(PrepareGeneration(*catalog_, At(42, 2)).ok());
  EXPECT_EQ(Complete(), std::vector<int64_t>{40});
}

TEST_F(GoingBackTest, OriginsThatSayNothingAnyMoreGo) {
  Launch(1);
  Take(At(0));
  for (uint32_t attempt = 2; attempt < 40; ++attempt) {
    Launch(attempt);
    Restore(attempt, At(attempt - 2, attempt - 1));
    Take(At(attempt - 1, attempt));
    ASSERT_TRUE(Retain(2).ok());
  }
  size_t restored = 0;
  for (const StoreEntry& entry : store_->List(keys::NameFolder("job", "wave")).value()) {
    if (keys::IsRestoredName(entry.name)) ++restored;
  }
  EXPECT_EQ(restored, 16u);
  EXPECT_EQ(Complete(), (std::vector<int64_t>{38, 37}));
}

}  // namespace
}  // namespace kedge
