// What gc removes, and what it must not: everything that somebody may still finish or needs.
#include "store/garbage.h"

#include <gtest/gtest.h>

#include "base/testing/manual_clock.h"
#include "os/files/files.h"
#include "os/testing/simulated_file_system.h"
#include "store/attempts.h"
#include "store/posix/posix_store.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge {
namespace {

using testing::MakerOptions;
using testing::PublishRanks;
using testing::TakeVersion;

constexpr int64_t kSecondNs = 1'000'000'000;

class GarbageTest : public ::testing::Test {
 protected:
  GarbageTest()
      : store_(MakePosixStore(fs_, {.path = "/store"})), catalog_(Catalog::OpenOrCreate(*store_, {"node1", 1, "agent"}).value()) {
    Begin();
  }
  // A new attempt takes over.
  void Begin() {
    AttemptRequest request = RequestOfThisProcess("job", 60, 2);
    // On a machine of its own each, so that their leases must tell.
    request.machine_id = std::to_string(attempt_);
    LeaseWatch watch(clock_);
    EXPECT_TRUE(attempt_ == 0 || watch.Unchanged(catalog_, keys::AttemptKey("job", attempt_)).ok());
    Pass(61);
    const auto record = AcquireAttempt(catalog_, request, &watch);
    ASSERT_TRUE(record.ok()) << record.status().ToString();
    attempt_ = record->attempt;
  }
  Generation At(int64_t version, uint32_t attempt, uint32_t take = 1) {
    return {catalog_.id(), "job", "wave", version, attempt, take};
  }
  void Age(const std::string& key, double seconds) {
    const std::string path = "/store/" + key;
    const auto info = fs_.Stat(path);
    ASSERT_TRUE(info.ok()) << info.status().ToString();
    const int64_t modified_ns = info->modified_ns - static_cast<int64_t>(seconds * kSecondNs);
    ASSERT_TRUE(fs_.SetModifiedTime(path, modified_ns).ok());
  }
  // Whoever collects has looked before, and nobody has given a sign of life since.
  void Pass(double seconds) { clock_.Advance(FromSeconds(seconds)); }
  // "kind what" of all items.
  std::vector<std::string> Collect(bool dry_run = false) {
    GarbageOptions options;
    options.dry_run = dry_run;
    options.patience = Duration::zero();
    options.watch = &watch_;
    const auto report = CollectGarbage(catalog_, options);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    problems_ = report->problems;
    std::vector<std::string> items;
    for (const GarbageItem& item : report->items) {
      EXPECT_FALSE(item.why.empty());
      items.push_back(std::string(KindName(item.kind)) + " " + item.what);
    }
    return items;
  }
  bool IsThere(const Generation& generation) { return InspectGeneration(catalog_, generation).ok(); }

  os::testing::SimulatedFileSystem fs_;
  std::unique_ptr<Store> store_;
  Catalog catalog_;
  testing::ManualClock clock_;
  LeaseWatch watch_{clock_};
  uint32_t attempt_ = 0;
  MakerOptions options_;
  std::vector<std::string> problems_;
};

TEST_F(GarbageTest, NothingOfALiveAttemptIsGarbage) {
  ASSERT_TRUE(TakeVersion(catalog_, At(1, 1), options_).ok());
  ASSERT_TRUE(PublishRanks(catalog_, At(2, 1), 0, 1, options_).ok());
  const auto writer = store_->CreateObject(keys::ImageKey(At(2, 1), 1), {"node1", 1, "agent"}, 0);
  ASSERT_TRUE(writer.ok());
  EXPECT_TRUE(Collect().empty());
  EXPECT_TRUE((*writer)->Commit().ok());
}

TEST_F(GarbageTest, OfASilentAttemptWhatIsNeedlessGoes) {
  ASSERT_TRUE(TakeVersion(catalog_, At(2, 1), options_).ok());
  ASSERT_TRUE(PublishRanks(catalog_, At(1, 1), 0, 1, options_).ok());
  ASSERT_TRUE(PublishRanks(catalog_, At(3, 1), 0, 1, options_).ok());
  const auto writer = store_->CreateObject(keys::ImageKey(At(3, 1), 1), {"node1", 1, "agent"}, 0);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->WriteAt(0, AsBytes("12345")).ok());
  Age(keys::AttemptKey("job", 1), 1000);
  EXPECT_TRUE(Collect().empty()) << "however old it looks: clocks differ";
  Pass(61);
  const std::vector<std::string> expected = {"temporary " + (*writer)->handle(), "incomplete " + At(1, 1).ToString()};
  EXPECT_EQ(Collect(/*dry_run=*/true), expected);
  EXPECT_TRUE(IsThere(At(1, 1))) << "a dry run removes nothing";
  EXPECT_EQ(Collect(), expected);
  EXPECT_FALSE(IsThere(At(1, 1)));
  EXPECT_TRUE(IsThere(At(3, 1))) << "newer than all that is complete: a node may still hold the rest of it";
  EXPECT_TRUE(Collect().empty());
  Age(keys::AttemptKey("job", 1), 86400);
  EXPECT_TRUE(Collect().empty());
  Pass(61);
  EXPECT_EQ(Collect(), std::vector<std::string>{"incomplete " + At(3, 1).ToString()});
  EXPECT_TRUE(testing::CheckVersion(catalog_, At(2, 1)).ok());
}

TEST_F(GarbageTest, WhatAgentsStillCarryIsNotDisturbed) {
  ASSERT_TRUE(PublishRanks(catalog_, At(1, 1), 0, 1, options_).ok());
  Begin();
  ASSERT_TRUE(TakeVersion(catalog_, At(2, attempt_), options_).ok());
  ASSERT_TRUE(MarkDraining(catalog_, "job", 1).ok());
  EXPECT_TRUE(Collect().empty());
  Pass(59);
  ASSERT_TRUE(MarkDraining(catalog_, "job", 1).ok());
  EXPECT_TRUE(Collect().empty());
  Pass(61);
  EXPECT_EQ(Collect().size(), 1u);
}

TEST_F(GarbageTest, WhatIsWholeIsFinishedNotRemoved) {
  ASSERT_TRUE(TakeVersion(catalog_, At(1, 1), options_).ok());
  ASSERT_TRUE(store_->Remove(keys::VersionKey(At(1, 1))).ok());
  ASSERT_TRUE(TakeVersion(catalog_, At(2, 1), options_).ok());
  Age(keys::AttemptKey("job", 1), 100000);
  EXPECT_EQ(Collect(true), std::vector<std::string>{"finished " + At(1, 1).ToString()});
  EXPECT_FALSE(InspectGeneration(catalog_, At(1, 1))->complete);
  EXPECT_EQ(Collect(), std::vector<std::string>{"finished " + At(1, 1).ToString()});
  EXPECT_TRUE(testing::CheckVersion(catalog_, At(1, 1)).ok());
}

TEST_F(GarbageTest, SupersededTakingsGo) {
  ASSERT_TRUE(TakeVersion(catalog_, At(1, 1, 1), options_).ok());
  ASSERT_TRUE(TakeVersion(catalog_, At(1, 1, 2), options_).ok());
  EXPECT_EQ(Collect(), std::vector<std::string>{"superseded " + At(1, 1, 1).ToString()});
  EXPECT_TRUE(testing::CheckVersion(catalog_, At(1, 1, 2)).ok());
}

TEST_F(GarbageTest, TemporariesOutsideAttemptsGoByAge) {
  const auto writer = store_->CreateObject("jobs/job/names/x/object", {"login", 0, "copy"}, 0);
  const auto root = store_->CreateObject("object", {"login", 9, "agent"}, 0);
  ASSERT_TRUE(writer.ok() && root.ok());
  EXPECT_TRUE(Collect().empty());
  Age((*writer)->handle(), 3700);
  Age((*root)->handle(), 3700);
  EXPECT_EQ(Collect().size(), 2u);
  EXPECT_TRUE(Collect().empty());
}

TEST_F(GarbageTest, ASuccessorRemovesExactlyItsPredecessorsTemporaries) {
  const TemporaryOwner self = catalog_.owner();
  std::vector<std::unique_ptr<ObjectWriter>> writers;
  for (const TemporaryOwner& owner :
       {self, self, TemporaryOwner{"node1", 1, "r0"}, TemporaryOwner{"node1", 2, "agent"}, TemporaryOwner{"node2", 1, "agent"}}) {
    writers.push_back(store_->CreateObject(keys::ImageKey(At(1, 1), 0), owner, 0).value());
  }
  ASSERT_TRUE(RemoveOwnTemporaries(catalog_, "job", {writers[1]->handle()}).ok());
  EXPECT_FALSE(writers[0]->Commit().ok());
  for (size_t i = 1; i < writers.size(); ++i) EXPECT_TRUE(writers[i]->Commit().ok()) << i;
  EXPECT_TRUE(RemoveOwnTemporaries(catalog_, "no such job", {}).ok());
}

TEST_F(GarbageTest, WhatIsNotUnderstoodStopsRemovalAndIsTold) {
  ASSERT_TRUE(TakeVersion(catalog_, At(1, 1, 1), options_).ok());
  ASSERT_TRUE(TakeVersion(catalog_, At(1, 1, 2), options_).ok());
  fs_.faults().Add({.calls = os::testing::CallsOf(os::testing::Call::kPread),
                    .path_contains = "1-1-2/version",
                    .count = os::testing::kForEver,
                    .errno_value = EIO});
  EXPECT_TRUE(Collect().empty());
  EXPECT_FALSE(problems_.empty());
  fs_.faults().Clear();
  EXPECT_EQ(Collect().size(), 1u);
  EXPECT_TRUE(problems_.empty());
}

}  // namespace
}  // namespace kedge
