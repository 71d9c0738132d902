// A job that goes back, on a simulated file system: what is of its lineage, and what it has left behind.
#include <gtest/gtest.h>

#include "base/testing/manual_clock.h"
#include "os/files/files.h"
#include "store/attempts.h"
#include "store/record_io.h"
#include "store/retention.h"
#include "store/testing/catalog_fixture.h"
#include "store/versions.h"

namespace kedge {
namespace {

using testing::CatalogTest;
using testing::PublishRanks;

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

  // Applied by somebody who watches the leases of others.
  bool RetentionWaits() {
    RetentionOptions options;
    options.watch = &watch_;
    RetentionReport report;
    EXPECT_TRUE(ApplyRetention(*catalog_, "job", "wave", options, &report).ok());
    return report.waits;
  }

  testing::ManualClock clock_;
  LeaseWatch watch_{clock_};
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
    fs_.faults().Add({.path_contains = folder, .count = os::testing::kForEver, .errno_value = EIO});
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
  EXPECT_TRUE(RetentionWaits()) << "the second attempt may carry its first taking";
  EXPECT_EQ(All(), (std::vector<Generation>{At(1, 2, 3), At(1, 2, 2), At(1, 2, 1)}));
  clock_.Advance(std::chrono::seconds(61));
  EXPECT_FALSE(RetentionWaits());
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
  EXPECT_TRUE(RetentionWaits()) << "its agents may carry it";
  EXPECT_EQ(All(), (std::vector<Generation>{At(35), At(30), At(20)}));
  clock_.Advance(std::chrono::seconds(61));
  EXPECT_FALSE(RetentionWaits());
  EXPECT_EQ(All(), (std::vector<Generation>{At(35), At(30)})) << "35 is above the newest that is complete";
}

TEST_F(GoingBackTest, AnOriginThatCannotBeReadIsNotTakenForNone) {
  Launch(1);
  for (const int64_t version : {30, 40, 50}) Take(At(version));
  Launch(2);
  Restore(2, At(40));
  const std::string key = keys::RestoredKey("job", "wave", 2, 1);
  fs_.faults().Add({.calls = os::testing::CallsOf(os::testing::Call::kPread),
                    .path_contains = "restored-2-1",
                    .count = os::testing::kForEver,
                    .errno_value = EIO});
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
