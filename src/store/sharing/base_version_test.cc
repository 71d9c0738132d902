#include "store/sharing/base_version.h"

#include <gtest/gtest.h>

#include "os/testing/simulated_file_system.h"
#include "store/garbage.h"
#include "store/posix/posix_store.h"
#include "store/record_io.h"
#include "store/retention.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge {
namespace {

class BaseVersionTest : public ::testing::Test {
 protected:
  BaseVersionTest()
      : store_(MakePosixStore(fs_, {.path = "/store"})),
        catalog_(Catalog::OpenOrCreate(*store_, {"node1", 1, "agent"}).value()) {}

  Generation At(int64_t version, uint32_t take) const { return {catalog_.id(), "job", "grid", version, 1, take}; }
  void Take(const Generation& generation) { ASSERT_TRUE(testing::TakeVersion(catalog_, generation, options_).ok()); }
  std::optional<Generation> Claim(const Generation& generation) {
    EXPECT_TRUE(PrepareGeneration(catalog_, generation).ok());
    const auto base = ClaimBase(catalog_, generation);
    EXPECT_TRUE(base.ok()) << base.status().ToString();
    return base.ok() ? *base : std::nullopt;
  }
  Status Retain(uint32_t keep) { return ApplyRetention(catalog_, "job", "grid", {keep, {}}, nullptr); }
  std::vector<Generation> Folders() { return ListGenerations(catalog_, "job", "grid").value(); }

  os::testing::SimulatedFileSystem fs_{{.seed = 1}};
  const std::unique_ptr<Store> store_;
  const Catalog catalog_;
  const testing::MakerOptions options_{.ranks = 1};
};

TEST_F(BaseVersionTest, IsTheNewestOfTheLineage) {
  EXPECT_EQ(Claim(At(1, 1)), std::nullopt) << "there is none";
  Take(At(2, 2));
  Take(At(3, 3));
  EXPECT_EQ(Claim(At(4, 4)), At(3, 3));
  EXPECT_EQ(Claim(At(4, 4)), At(3, 3)) << "again, for another rank";
  EXPECT_EQ(Claim(At(2, 1)), std::nullopt) << "a later one is complete";
  // The job goes back to 2, and takes 3 once more.
  ASSERT_TRUE(catalog_.store()
                  .PutIfAbsent(keys::RestoredKey("job", "grid", 1, 4), Encoded(RestoredRecord{At(2, 2), 1, 4, 1}),
                               catalog_.owner(), Folders::kMustExist)
                  .ok());
  EXPECT_EQ(Claim(At(3, 5)), At(2, 2)) << "what is abandoned is no base";
}

TEST_F(BaseVersionTest, OneThatIsMarkedRemovedIsNone) {
  Take(At(1, 1));
  Take(At(2, 2));
  const Generation next = At(3, 3);
  ASSERT_TRUE(PrepareGeneration(catalog_, next).ok());
  ASSERT_TRUE(
      store_->PutIfAbsent(keys::RemovedKey(At(2, 2)), Encoded(RemovedRecord{At(2, 2), 1}), catalog_.owner(), Folders::kMustExist)
          .ok());
  const auto base = ClaimBase(catalog_, next);
  ASSERT_TRUE(base.ok());
  EXPECT_NE(*base, At(2, 2));
}

TEST_F(BaseVersionTest, StaysWhileTheVersionIsUnderWay) {
  Take(At(1, 1));
  ASSERT_EQ(Claim(At(2, 2)), At(1, 1));
  Take(At(3, 3));
  ASSERT_TRUE(Retain(1).ok());
  EXPECT_TRUE(InspectGeneration(catalog_, At(1, 1))->removed) << "no version any more";
  EXPECT_TRUE(store_->OpenObject(keys::ImageKey(At(1, 1), 0)).ok()) << "its objects are there";
  GarbageOptions options;
  options.incomplete_age_seconds = 1e9;
  // The attempt has no record, so that nobody is at work on version 2: gc takes it, and then what it kept.
  ASSERT_TRUE(CollectGarbage(catalog_, options).ok());
  ASSERT_TRUE(CollectGarbage(catalog_, options).ok());
  EXPECT_EQ(Folders(), std::vector<Generation>{At(3, 3)});
}

TEST_F(BaseVersionTest, NeedsWhatItsBaseRefersTo) {
  Take(At(1, 1));
  ASSERT_TRUE(testing::TakeSharing(catalog_, At(2, 2), options_).ok());
  ASSERT_TRUE(Retain(1).ok());
  ASSERT_EQ(Claim(At(3, 3)), At(2, 2));
  Take(At(4, 4));
  ASSERT_TRUE(Retain(1).ok());
  EXPECT_TRUE(store_->OpenObject(keys::ImageKey(At(1, 1), 0)).ok());
  EXPECT_EQ(InspectGeneration(catalog_, At(3, 3))->references,
            (std::vector<std::string>{"names/grid/1-1-1", "names/grid/2-1-2"}));
}

// Should its record be damaged, its name still tells of the base.
TEST_F(BaseVersionTest, IsKeptByANameAlone) {
  Take(At(1, 1));
  ASSERT_EQ(Claim(At(2, 2)), At(1, 1));
  const Buffer damaged(10);
  ASSERT_TRUE(store_->Replace(keys::BaseKey(At(2, 2), At(1, 1)), damaged, catalog_.owner(), Folders::kMustExist).ok());
  EXPECT_EQ(InspectGeneration(catalog_, At(2, 2))->references, std::vector<std::string>{"names/grid/1-1-1"});
}

}  // namespace
}  // namespace kedge
