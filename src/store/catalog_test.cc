// The catalog's rules one by one, on a simulated file system: identity, publication, completeness, retention, pins.
// What crashes and races do to them is in crash_test.cc and race_test.cc; attempts and garbage have tests of their own.
#include "store/catalog.h"

#include <gtest/gtest.h>

#include "format/name_encoding.h"
#include "os/files.h"
#include "os/testing/simulated_file_system.h"
#include "store/posix_store.h"
#include "store/retention.h"
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

TEST_F(CatalogTest, ADamagedStoreRecordIsRefusedNotReplaced) {
  for (const Buffer& bytes : {Buffer{}, Buffer(100)}) {
    ASSERT_TRUE(store_->Replace("kedge-store", bytes, {}, Folders::kMustExist).ok());
    const Status status = Catalog::OpenOrCreate(*store_, {}).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << status.ToString();
    EXPECT_NE(status.message().find("/store/kedge-store"), std::string::npos) << status.message();
  }
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
  ASSERT_TRUE(store_->MakeFolder(layout::JobFolder("other")).ok());
  const Buffer record = store_->Get(layout::JobKey("job"), 1000).value();
  ASSERT_TRUE(store_->Replace(layout::JobKey("other"), record, {}, Folders::kMustExist).ok());
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
  ASSERT_TRUE(store_->Remove(layout::ImageKey(At(1), 0)).ok());
  EXPECT_EQ(PublishRanks(*catalog_, At(1), 1, 1, options_).status().code(), Code::kNotFound);
  EXPECT_FALSE(Inspect(At(1)).complete);
}

TEST_F(CatalogTest, WhatWasRemovedDoesNotComeBackInPart) {
  options_ = {.ranks = 1, .ranks_per_part = 1};
  Take(At(1));
  const PartRecord part = ReadParts(*catalog_, At(1), nullptr)->front();
  ASSERT_TRUE(store_->RemoveFolder(layout::GenerationFolder(At(1)), layout::VersionKey(At(1)), {}).ok());
  EXPECT_EQ(PublishPart(*catalog_, part).code(), Code::kNotFound);
  EXPECT_EQ(FinishVersion(*catalog_, At(1)).status().code(), Code::kNotFound);
  EXPECT_EQ(store_->List(layout::GenerationFolder(At(1))).status().code(), Code::kNotFound);
}

TEST_F(CatalogTest, DamagedVersionRecordsAreMadeAnewFromTheParts) {
  Take(At(1));
  const std::string key = layout::VersionKey(At(1));
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
  const std::string key = layout::PartKey(At(1), 0, 1);
  Buffer damaged = store_->Get(key, 10000).value();
  damaged.back() ^= std::byte{1};
  ASSERT_TRUE(Overwrite(key, damaged).ok());
  EXPECT_EQ(ReadImage(*catalog_, At(1), 0).status().code(), Code::kCorrupt);
  EXPECT_TRUE(ReadImage(*catalog_, At(1), 1).ok());
  ASSERT_TRUE(store_->Remove(layout::VersionKey(At(1))).ok());
  EXPECT_FALSE(Inspect(At(1)).finishable);
  EXPECT_TRUE(PublishRanks(*catalog_, At(1), 0, 1, options_).value().complete);
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
}

TEST_F(CatalogTest, AMissingPartMakesTheVersionIncomplete) {
  Take(At(1));
  ASSERT_TRUE(store_->Remove(layout::PartKey(At(1), 1, 1)).ok());
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
  ASSERT_TRUE(Overwrite(layout::VersionKey(At(1)), other_store->Get(layout::VersionKey(foreign), 10000).value()).ok());
  VersionInfo info = Inspect(At(1));
  EXPECT_FALSE(info.complete);
  EXPECT_TRUE(info.unknown && info.foreign);
  EXPECT_NE(info.reason.find("belongs to store " + other.id().ToHex()), std::string::npos) << info.reason;
  EXPECT_TRUE(Retain(1).ok()) << "what is foreign does not exist here";
  EXPECT_EQ(RemoveVersion(*catalog_, At(1), {}).code(), Code::kUnsupported);
  EXPECT_EQ(Complete(), std::vector<int64_t>{3});
  EXPECT_TRUE(store_->List(layout::GenerationFolder(At(1))).ok()) << "but is not removed";
}

TEST_F(CatalogTest, AnImageSaysWhatIsWrongWithIt) {
  Take(At(1));
  const std::string key = layout::ImageKey(At(1), 0);
  const StoredImage image = ReadImage(*catalog_, At(1), 0).value();
  const auto rewrite = [&](size_t cut, std::optional<size_t> flip) {
    Buffer bytes(image.entry.record_offset + image.entry.record_bytes);
    ASSERT_TRUE(store_->OpenObject(layout::ImageKey(At(1), 1)).value()->ReadAt(0, std::span(bytes).first(10)).ok());
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
  EXPECT_EQ(Complete(), (std::vector<int64_t>{6, 5, 4, 2, 1})) << "pinned ones do not count";
  in_use_.clear();
  ASSERT_TRUE(UnpinVersion(*catalog_, At(2)).ok());
  ASSERT_TRUE(UnpinVersion(*catalog_, At(6)).ok());
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

// Version 2's only image has its one chunk in version 1's object.
TEST_F(CatalogTest, ObjectsStayWhileAnotherVersionRefersToThem) {
  options_ = {.ranks = 1, .ranks_per_part = 1, .region_bytes = {3000}};
  Take(At(1));
  const auto bytes_of = [&](int64_t version) {
    const StoredImage image = ReadImage(*catalog_, At(version), 0).value();
    Buffer bytes(100);
    const auto object = store_->OpenObject(ChunkObjectKey(image, image.record.chunks[0]));
    EXPECT_TRUE(object.ok() && (*object)->ReadAt(image.record.chunks[0].object_offset, bytes).ok());
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
  EXPECT_EQ(store_->List(layout::GenerationFolder(At(1))).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace kedge
