// A store on two burst buffers: what the loss of one of them takes, which is nothing.
#include "store/copies/copied_store.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "os/testing/simulated_file_system.h"
#include "store/drained/drained_store.h"
#include "store/keys.h"
#include "store/posix/posix_store.h"
#include "store/retention.h"
#include "store/testing/unsteady_store.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge::testing {
namespace {

const TemporaryOwner kProgram{"node1", 1, "agent"};

// Two burst buffers before a store.
class CopiedStoreTest : public ::testing::Test {
 protected:
  CopiedStoreTest() { Begin(); }
  // As a program that begins: it knows of nobody that is away.
  void Begin() {
    for (size_t i = 0; i < sides_.size(); ++i)
      sides_[i] = std::make_shared<Unsteady>(MakePosixStore(files_[i], {.path = "/buffer"}));
    copied_ = MakeCopiedStore(sides_[0], sides_[1], {.clock = &clock_});
    alone_ = MakePosixStore(store_files_, {.path = "/store"});
    store_ = MakeDrainedStore(copied_, alone_, {.clock = &clock_});
    catalog_.emplace(*Catalog::OpenOrCreate(*store_, {"node1", 1, "agent"}));
  }
  Generation At(int64_t version) const { return {catalog_->id(), "job", "wave", version, 1, static_cast<uint32_t>(version)}; }
  Status Take(int64_t version) { return TakeVersion(*catalog_, At(version), {}); }
  // By a program that begins when one of the two is lost for good.
  Status CheckWithout(size_t side, int64_t version) {
    Begin();
    sides_.at(side)->failure = {Code::kUnavailable, "lost"};
    const Status checked = CheckVersion(*catalog_, At(version));
    Begin();
    return checked;
  }
  bool IsOnBoth(const std::string& key) { return sides_[0]->Stamp(key).ok() && sides_[1]->Stamp(key).ok(); }

  std::array<os::testing::SimulatedFileSystem, 2> files_;
  os::testing::SimulatedFileSystem store_files_;
  StillClock clock_;
  std::array<std::shared_ptr<Unsteady>, 2> sides_;
  std::shared_ptr<Store> copied_, alone_;
  std::unique_ptr<Store> store_;
  std::optional<Catalog> catalog_;
};

TEST_F(CopiedStoreTest, ALossOfEitherTakesNothing) {
  ASSERT_TRUE(Take(1).ok());
  EXPECT_FALSE(InspectGeneration(*catalog_, At(1))->drained);
  for (const size_t side : {0, 1}) {
    const Status whole = CheckWithout(side, 1);
    EXPECT_TRUE(whole.ok()) << side << ' ' << whole.ToString();
  }
}

TEST_F(CopiedStoreTest, WhileOneIsAwayVersionsGoToTheStoreAndOthersAreRead) {
  for (const size_t side : {0, 1}) {
    const auto version = static_cast<int64_t>(10 * side);
    ASSERT_TRUE(Take(version + 1).ok());
    sides_.at(side)->failure = {Code::kUnavailable, "cut"};
    const Status taken = Take(version + 2);
    ASSERT_TRUE(taken.ok()) << side << ' ' << taken.ToString();
    EXPECT_TRUE(InspectGeneration(*catalog_, At(version + 2))->drained);
    const Status whole = CheckVersion(*catalog_, At(version + 1));
    EXPECT_TRUE(whole.ok()) << side << ' ' << whole.ToString();
    EXPECT_EQ(NewestAtOrBelow(*catalog_, "job", "wave", -1)->generation.version, version + 2);
    sides_.at(side)->failure = Status::Ok();
    clock_.now_ns += Duration(std::chrono::seconds(11)).count();
    ASSERT_TRUE(Take(version + 3).ok());
    EXPECT_FALSE(InspectGeneration(*catalog_, At(version + 3))->drained);
  }
}

// One of them goes away at each call in turn. What was acknowledged is whole in the store, or without either of the two.
TEST_F(CopiedStoreTest, OneGoesAwayAtAnyMoment) {
  int64_t version = 0;
  for (const size_t side : {0, 1}) {
    bool has_lasted = false;
    for (uint64_t calls = 0; !has_lasted; ++calls) {
      ASSERT_LT(calls, 1000U);
      Begin();
      sides_.at(side)->calls_left = calls;
      const Status taken = Take(++version);
      has_lasted = sides_.at(side)->failure.ok();
      for (const size_t lost : {0, 1}) {
        const Status whole = CheckWithout(lost, version);
        EXPECT_TRUE(whole.ok() || !taken.ok()) << side << " after " << calls << " calls, " << lost << ": " << whole.ToString();
      }
      // Whoever goes on with it comes to an end.
      const auto finished = FinishVersion(*catalog_, At(version));
      if (!taken.ok() && finished.ok() && finished->complete) {
        for (const size_t lost : {0, 1}) {
          const Status whole = CheckWithout(lost, version);
          EXPECT_TRUE(whole.ok()) << side << " after " << calls << " calls, " << lost << ": " << whole.ToString();
        }
      }
    }
  }
  EXPECT_GT(version, 20);
}

TEST_F(CopiedStoreTest, ARecordThatTheSecondLacksIsCompleted) {
  const std::string key = "f/record";
  ASSERT_TRUE(copied_->MakeFolder("f").ok());
  ASSERT_TRUE(sides_[0]->PutIfAbsent(key, AsBytes("dead"), kProgram, Folders::kMustExist).ok());
  EXPECT_EQ(copied_->PutIfAbsent(key, AsBytes("late"), kProgram, Folders::kMustExist).code(), Code::kAlreadyExists);
  EXPECT_TRUE(IsOnBoth(key));
  EXPECT_EQ(AsText(*sides_[1]->Get(key, 100)), "dead");

  ASSERT_TRUE(sides_[0]->PutIfAbsent("f/seen", AsBytes("dead"), kProgram, Folders::kMustExist).ok());
  const std::array<std::string, 1> seen = {"f/seen"};
  sides_[1]->failure = {Code::kUnavailable, "cut"};
  EXPECT_EQ(copied_->EnsureDurable(seen).code(), Code::kUnavailable) << "one of them is not enough";
  sides_[1]->failure = Status::Ok();
  clock_.now_ns += Duration(std::chrono::seconds(11)).count();
  EXPECT_TRUE(copied_->EnsureDurable(seen).ok());
  EXPECT_TRUE(IsOnBoth("f/seen"));
}

TEST_F(CopiedStoreTest, TheFirstDecidesWhatARecordIs) {
  const std::string key = "f/record";
  ASSERT_TRUE(copied_->MakeFolder("f").ok());
  ASSERT_TRUE(sides_[1]->PutIfAbsent(key, AsBytes("old"), kProgram, Folders::kMustExist).ok());
  EXPECT_TRUE(copied_->PutIfAbsent(key, AsBytes("new"), kProgram, Folders::kMustExist).ok());
  for (const auto& side : sides_) EXPECT_EQ(AsText(*side->Get(key, 100)), "new");
}

TEST_F(CopiedStoreTest, WhatOneHasLostIsReadFromTheOther) {
  ASSERT_TRUE(Take(1).ok());
  for (const size_t side : {0, 1}) {
    const std::string key = keys::ImageKey(At(1), static_cast<uint32_t>(side));
    ASSERT_TRUE(sides_.at(side)->Remove(key).ok());
  }
  EXPECT_TRUE(CheckVersion(*catalog_, At(1)).ok());
  // Whoever had it open goes on.
  const auto reader = copied_->OpenObject(keys::ImageKey(At(1), 1));
  ASSERT_TRUE(reader.ok());
  Buffer byte(1);
  ASSERT_TRUE((*reader)->ReadAt(0, byte).ok());
  sides_[0]->failure = {Code::kUnavailable, "cut"};
  EXPECT_FALSE((*reader)->ReadAt(0, byte).ok()) << "the second does not have this one";
}

TEST_F(CopiedStoreTest, NothingIsRemovedFromOneAlone) {
  ASSERT_TRUE(Take(1).ok());
  ASSERT_TRUE(Take(2).ok());
  sides_[1]->failure = {Code::kUnavailable, "cut"};
  EXPECT_EQ(RemoveVersion(*catalog_, At(1), {}).code(), Code::kUnavailable);
  sides_[1]->failure = Status::Ok();
  clock_.now_ns += Duration(std::chrono::seconds(11)).count();
  ASSERT_TRUE(RemoveVersion(*catalog_, At(1), {}).ok());
  for (const auto& side : sides_) EXPECT_EQ(side->List(keys::GenerationFolder(At(1))).status().code(), Code::kNotFound);
  EXPECT_TRUE(CheckVersion(*catalog_, At(2)).ok());
}

TEST_F(CopiedStoreTest, TheRoomIsThatOfTheOneThatHasLess) {
  files_[1].SetCapacity(1 << 20);
  EXPECT_EQ(copied_->Space()->available_bytes, sides_[1]->Space()->available_bytes);
  sides_[0]->failure = sides_[1]->failure = {Code::kUnavailable, "cut"};
  EXPECT_EQ(copied_->Space().status().code(), Code::kUnavailable);
  EXPECT_EQ(copied_->List("").status().code(), Code::kUnavailable);
  EXPECT_EQ(copied_->Place().status().code(), Code::kUnavailable);
}

TEST_F(CopiedStoreTest, HandlesOfOthersAreRefused) {
  for (const char* handle : {"", "b", "b3", "b9:ab", "bx:ab", "3:ab"}) {
    EXPECT_EQ(copied_->AdoptObject("f/object", handle).status().code(), Code::kInvalidArgument) << handle;
    EXPECT_EQ(copied_->JoinObject(handle).status().code(), Code::kInvalidArgument) << handle;
    EXPECT_EQ(copied_->RemoveTemporary(handle).code(), Code::kInvalidArgument) << handle;
  }
}

}  // namespace
}  // namespace kedge::testing
