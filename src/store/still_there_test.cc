// The store is exchanged for an older copy of itself: what was in it is looked up again, and what was made sure of is made anew.
// Or for another store, which gets nothing.
#include "store/still_there.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "os/testing/simulated_file_system.h"
#include "os/testing/temporary_folder.h"
#include "store/posix/posix_store.h"
#include "store/retention.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge {
namespace {

using testing::MakerOptions;
using testing::PublishRanks;
using testing::TakeVersion;

class StillThereTest : public ::testing::Test {
 protected:
  Generation At(int64_t version, uint32_t take) const { return {catalog_.id(), "job", "wave", version, 1, take}; }
  void Take(int64_t version, uint32_t take) {
    const Status taken = TakeVersion(catalog_, At(version, take), options_);
    ASSERT_TRUE(taken.ok()) << taken.ToString();
  }
  void Copy() const { std::filesystem::copy(path_, copy_, std::filesystem::copy_options::recursive); }
  void FailOver() const {
    std::filesystem::rename(path_, path_ + ".away");
    std::filesystem::rename(copy_, path_);
  }
  std::vector<Seen> Missing(const std::vector<Seen>& seen) const {
    const auto missing = FindMissing(catalog_, seen);
    EXPECT_TRUE(missing.ok()) << missing.status().ToString();
    return missing.ok() ? *missing : std::vector<Seen>();
  }

  const os::testing::TemporaryFolder folder_;
  const std::string path_ = folder_ / "store";
  const std::string copy_ = folder_ / "copy";
  const std::unique_ptr<Store> store_ = MakePosixStore(os::SystemFileSystem(), {.path = path_});
  const Catalog catalog_ = Catalog::OpenOrCreate(*store_, {"node1", 1, "agent"}).value();
  const MakerOptions options_{};
};

TEST_F(StillThereTest, WhatAnOlderCopyHasNotGotIsMissing) {
  Take(1, 1);
  ASSERT_TRUE(PublishRanks(catalog_, At(2, 2), 0, 1, options_).ok());
  Copy();
  ASSERT_TRUE(PublishRanks(catalog_, At(2, 2), 1, 1, options_).ok());
  ASSERT_TRUE(PublishRanks(catalog_, At(3, 3), 0, 1, options_).ok());
  const std::vector<Seen> seen = {{At(1, 1), true, {0, 1}}, {At(2, 2), true, {0, 1}}, {At(3, 3), false, {0}}};
  EXPECT_TRUE(Missing(seen).empty());
  FailOver();
  const std::vector<Seen> missing = Missing(seen);
  ASSERT_EQ(missing.size(), 2u);
  EXPECT_EQ(missing[0].generation, At(2, 2));
  EXPECT_TRUE(missing[0].complete);
  EXPECT_EQ(missing[0].ranks, std::vector<uint32_t>{1});
  EXPECT_EQ(missing[1].generation, At(3, 3));
  EXPECT_FALSE(missing[1].complete);
  EXPECT_EQ(missing[1].ranks, std::vector<uint32_t>{0});
}

TEST_F(StillThereTest, NothingIsMissingOfWhatRetentionHasRemoved) {
  for (const uint32_t take : {1u, 2u, 3u}) Take(take, take);
  RetentionOptions options;
  options.keep = 1;
  ASSERT_TRUE(ApplyRetention(catalog_, "job", "wave", options, nullptr).ok());
  ASSERT_FALSE(InspectGeneration(catalog_, At(1, 1)).ok());
  EXPECT_TRUE(Missing({{At(1, 1), true, {0, 1}}, {At(2, 2), true, {0, 1}}, {At(3, 3), true, {0, 1}}}).empty());
}

TEST_F(StillThereTest, NothingIsMissingOfAStoreThatIsNotThere) {
  Take(1, 1);
  std::filesystem::rename(path_, path_ + ".away");
  EXPECT_EQ(FindMissing(catalog_, {{At(1, 1), true, {0, 1}}}).status().code(), Code::kUnavailable);
}

TEST_F(StillThereTest, WhatIsInThePlaceOfAFolderTellsNothing) {
  Take(1, 1);
  std::filesystem::rename(path_ + "/jobs/job/names", path_ + "/names");
  std::filesystem::copy_file(path_ + "/kedge-store", path_ + "/jobs/job/names");
  EXPECT_FALSE(FindMissing(catalog_, {{At(1, 1), true, {0, 1}}}).ok());
}

TEST_F(StillThereTest, RecordsThatWereMadeInAnotherFolderAreMadeAnew) {
  EXPECT_TRUE(catalog_.Confirm().ok());
  EXPECT_EQ(catalog_.places(), 1u);
  Copy();
  Take(1, 1);
  FailOver();
  Take(2, 2);
  EXPECT_EQ(catalog_.places(), 2u);
  const auto names = catalog_.Names("job", nullptr);
  ASSERT_TRUE(names.ok()) << names.status().ToString();
  EXPECT_EQ(*names, std::vector<std::string>{"wave"});
}

// It goes before the first record of a job, and another store lies there by then: that must not take it for its own.
TEST_F(StillThereTest, ARecordThatWentIntoAnotherStoreIsTakenBack) {
  std::filesystem::rename(path_, path_ + ".away");
  const auto other_store = MakePosixStore(os::SystemFileSystem(), {.path = path_});
  const Catalog other = Catalog::OpenOrCreate(*other_store, {}).value();
  EXPECT_EQ(catalog_.EnsureJob("job").code(), Code::kMismatch);
  const Status ensured = other.EnsureJob("job");
  EXPECT_TRUE(ensured.ok()) << ensured.ToString();
  EXPECT_EQ(catalog_.EnsureJob("job").code(), Code::kMismatch);
  EXPECT_EQ(other.Jobs(nullptr).value(), std::vector<std::string>{"job"}) << "what is its own stays";
}

// Beside what is missing: what attempts went on from, and the newest version.
TEST(NewestStored, WhoAsksForItIsToldOfRestartsWithoutAnotherListing) {
  os::testing::SimulatedFileSystem fs;
  const auto store = MakePosixStore(fs, {.path = "/store"});
  const Catalog catalog = Catalog::OpenOrCreate(*store, {"node1", 1, "agent"}).value();
  const Generation first{catalog.id(), "job", "wave", 40, 1, 1}, second{catalog.id(), "job", "wave", 50, 1, 2};
  for (const Generation& generation : {first, second}) ASSERT_TRUE(TakeVersion(catalog, generation, {}).ok());
  ASSERT_TRUE(catalog.NoteRestored({first, 2, 1, 1}).ok());
  const auto lists = [&] { return fs.faults().calls(os::testing::Call::kList); };
  uint64_t before = lists();
  ASSERT_TRUE(NewestAtOrBelow(catalog, "job", "wave", -1).ok());
  const uint64_t needed = lists() - before;
  before = lists();
  std::vector<RestoredRecord> restored;
  EXPECT_EQ(NewestAtOrBelow(catalog, "job", "wave", -1, &restored)->generation, first);
  EXPECT_EQ(lists() - before, needed);
  ASSERT_EQ(restored.size(), 1u);
  EXPECT_EQ(restored[0].origin, first);
  restored.clear();
  EXPECT_EQ(NewestAtOrBelow(catalog, "job", "wave", 5, &restored).status().code(), Code::kNotFound);
  EXPECT_EQ(restored.size(), 1u) << "there is no such version, and yet the job went on from one";
}

}  // namespace
}  // namespace kedge
