// The catalog's rules one by one, on a simulated file system: identity, publication, completeness, retention, pins.
// What crashes and races do to them is in crash_test.cc and race_test.cc; attempts and garbage have tests of their own.
#include "store/catalog.h"

#include <gtest/gtest.h>

#include "os/files/files.h"
#include "store/garbage.h"
#include "store/reached.h"
#include "store/record_io.h"
#include "store/retention.h"
#include "store/sharing/image_object.h"
#include "store/testing/catalog_fixture.h"
#include "store/versions.h"

namespace kedge {
namespace {

using testing::CatalogTest;
using testing::CheckVersion;
using testing::PublishRanks;
using testing::TakeVersion;

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

TEST_F(CatalogTest, AVersionOfOnePartHasItInside) {
  options_ = {.ranks = 3, .ranks_per_part = 3};
  Take(At(1));
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
  const VersionRecord version = ReadVersionRecord(*catalog_, At(1)).value();
  ASSERT_FALSE(version.part_inside.empty());
  EXPECT_TRUE(store_->List(keys::PartsFolder(At(1)))->empty());
  const std::vector<PartRecord> parts = ReadParts(*catalog_, At(1), nullptr).value();
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts.front().images.size(), 3u);
  EXPECT_TRUE(ReadPublishedImage(*catalog_, At(1), 2).ok());
  // Whoever comes late finds it complete, and adds nothing: all images again, one of them, or none.
  const auto finished = FinishVersion(*catalog_, At(1));
  ASSERT_TRUE(finished.ok()) << finished.status().ToString();
  EXPECT_TRUE(finished->complete && !finished->created);
  for (const uint32_t ranks : {3, 1}) {
    const auto again = PublishRanks(*catalog_, At(1), 0, ranks, options_);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_TRUE(again->complete && !again->created);
  }
  EXPECT_TRUE(store_->List(keys::PartsFolder(At(1)))->empty());
  EXPECT_EQ(ReadVersionRecord(*catalog_, At(1)).value(), version);
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
  options_.ranks = 2;
  EXPECT_EQ(PublishRanks(*catalog_, At(1), 0, 1, options_).status().code(), Code::kMismatch);
}

// What another has published as a part stays what counts of it.
TEST_F(CatalogTest, WhereThereIsAPartTheRestIsOneToo) {
  options_ = {.ranks = 3, .ranks_per_part = 3};
  ASSERT_TRUE(PublishRanks(*catalog_, At(1), 0, 1, options_).ok());
  ASSERT_TRUE(PublishRanks(*catalog_, At(1), 0, 3, options_).value().created);
  EXPECT_TRUE(ReadVersionRecord(*catalog_, At(1))->part_inside.empty());
  EXPECT_EQ(ReadParts(*catalog_, At(1), nullptr)->size(), 2u);
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
}

// Images that were written once more under other names, of a version that is complete: nobody needs the new objects.
TEST_F(CatalogTest, ObjectsThatCameTooLateForAWholeVersionGo) {
  options_ = {.ranks = 2, .ranks_per_part = 2, .one_object = true};
  Take(At(1));
  const auto objects = store_->List(keys::ObjectsFolder(At(1)));
  ASSERT_EQ(objects->size(), 1u);
  const auto again = PublishRanks(*catalog_, At(1), 0, 2, options_);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  const auto left = store_->List(keys::ObjectsFolder(At(1)));
  ASSERT_EQ(left->size(), 1u);
  EXPECT_EQ(left->front().name, objects->front().name);
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
}

TEST_F(CatalogTest, WithoutHardLinksAVersionIsOfPartRecords) {
  options_ = {.ranks = 2, .ranks_per_part = 2};
  os::testing::FaultRule rule;
  rule.calls = os::testing::CallsOf(os::testing::Call::kLink);
  rule.count = os::testing::kForEver;
  rule.errno_value = EPERM;
  fs_.faults().Add(rule);
  for (const int64_t version : {1, 2}) {
    Take(At(version));
    EXPECT_TRUE(ReadVersionRecord(*catalog_, At(version))->part_inside.empty());
    EXPECT_TRUE(CheckVersion(*catalog_, At(version)).ok());
  }
}

TEST_F(CatalogTest, ALargePartHasARecordOfItsOwn) {
  options_ = {.ranks = 2000, .ranks_per_part = 2000, .region_bytes = {1}, .one_object = true};
  Take(At(1));
  EXPECT_TRUE(ReadVersionRecord(*catalog_, At(1))->part_inside.empty());
  EXPECT_TRUE(Inspect(At(1)).complete);
}

TEST_F(CatalogTest, AVersionWithItsPartInsideIsNoneWithoutItsObjects) {
  options_ = {.ranks = 2, .ranks_per_part = 2};
  ASSERT_TRUE(PublishRanks(*catalog_, At(2), 0, 2, options_).ok());
  const PartRecord part = ReadParts(*catalog_, At(2), nullptr)->front();
  ASSERT_TRUE(store_->Remove(keys::VersionKey(At(2))).ok());
  ASSERT_TRUE(store_->Remove(keys::ImageKey(At(2), 1)).ok());
  EXPECT_EQ(CommitPart(*catalog_, part).status().code(), Code::kNotFound);
  EXPECT_FALSE(Inspect(At(2)).complete);
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
  EXPECT_EQ(CommitPart(*catalog_, part).status().code(), Code::kInvalidArgument);
  part.images = {{1, "data/r1", 0, 0, 0, 0}, {0, "data/r0", 0, 0, 0, 0}};
  EXPECT_EQ(CommitPart(*catalog_, part).status().code(), Code::kInvalidArgument);
  part.images = {{2, "data/r2", 0, 0, 0, 0}};
  EXPECT_EQ(CommitPart(*catalog_, part).status().code(), Code::kInvalidArgument);
  part.images = {{1, "data/r1", 0, 0, 0, 0}};
  part.generation.store_id = {.high = 1, .low = 1};
  EXPECT_EQ(CommitPart(*catalog_, part).status().code(), Code::kMismatch);
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
  EXPECT_EQ(CommitPart(*catalog_, part).status().code(), Code::kNotFound);
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

// Its part is damaged with it: there is none until its images are published again, if they are.
TEST_F(CatalogTest, ADamagedVersionRecordWithItsPartInsideIsMadeAnewByWhoeverHasTheImages) {
  options_ = {.ranks = 2, .ranks_per_part = 2};
  Take(At(1));
  const std::string key = keys::VersionKey(At(1));
  Buffer damaged = store_->Get(key, 10000).value();
  damaged[damaged.size() - 20] ^= std::byte{1};
  ASSERT_TRUE(Overwrite(key, damaged).ok());
  const VersionInfo info = Inspect(At(1));
  EXPECT_FALSE(info.complete || info.unknown || info.finishable);
  EXPECT_FALSE(FinishVersion(*catalog_, At(1))->complete);
  EXPECT_TRUE(PublishRanks(*catalog_, At(1), 0, 2, options_).value().complete);
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
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

}  // namespace
}  // namespace kedge
