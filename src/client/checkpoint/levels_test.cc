// Levels that the store alone tells of: waits, tests, pins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "client/checkpoint/levels.h"
#include "client/testing/stored.h"
#include "os/testing/simulated_file_system.h"
#include "store/keys.h"
#include "store/retention.h"
#include "store/versions.h"

namespace kedge::client {
namespace {

using os::testing::Call;
using os::testing::CallsOf;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StoredTest;

class LevelsTest : public StoredTest {
 protected:
  Status Wait(int64_t version, Duration timeout = seconds(10), const std::string& name = "wave") {
    std::unique_lock lock(core_->mutex);
    const Status status = levels_.Wait(lock, name, version, Level::kLast, timeout);
    EXPECT_TRUE(lock.owns_lock());
    return status;
  }
  Code TestCode(int64_t version) { return levels_.Test("wave", version).status().code(); }

  Levels levels_{core_.get(), &ledger_, &session_};
};

TEST_F(LevelsTest, WhatIsNotThereIsSaidAtOnce) {
  EXPECT_EQ(Wait(-1, seconds(10), "").code(), Code::kNotFound) << "nothing taken yet";
  EXPECT_EQ(Wait(3).code(), Code::kNotFound);
  Store(3);
  EXPECT_TRUE(Wait(3).ok()) << "another launch's";
  EXPECT_EQ(levels_.Test("wave", 3).value(), Level::kStore);
  EXPECT_EQ(TestCode(4), Code::kNotFound);
  ledger_.Count("wave");
  ASSERT_TRUE(ledger_.Begin("wave", 5, false).ok());
  const Status not_captured = Wait(5);
  EXPECT_EQ(not_captured.code(), Code::kFailedPrecondition);
  EXPECT_THAT(not_captured.message(), HasSubstr("'wave' version 5 was not captured"));
  // The job goes on from 3, and leaves 6 behind.
  Store(6);
  ASSERT_TRUE(catalog().NoteRestored({At(3), 2, 1, 0}).ok());
  EXPECT_THAT(Wait(6).message(), HasSubstr("abandoned"));
}

TEST_F(LevelsTest, WhenTheTimeIsOverTheMissingRanksAreNamed) {
  Taken(3);
  StoreRank(0, 3);
  EXPECT_EQ(levels_.Test("wave", 3).value(), Level::kNone);
  const Status late = Wait(3, milliseconds(20));
  EXPECT_EQ(late.code(), Code::kTimeout);
  EXPECT_THAT(late.message(), AllOf(HasSubstr("'wave' version 3"), HasSubstr("no image yet from ranks 1")));
  EXPECT_THAT(Wait(-1, Duration::zero(), "").message(), HasSubstr("version 3")) << "the newest that was taken";
}

TEST_F(LevelsTest, OtherThreadsGetOnDuringAWait) {
  Taken(3);
  StoreRank(0, 3);
  std::unique_lock lock(core_->mutex);
  std::thread other([&] {
    const std::lock_guard gets_on(core_->mutex);
    StoreRank(1, 3);
  });
  const Status status = levels_.Wait(lock, "wave", 3, Level::kStore, seconds(10));
  EXPECT_TRUE(status.ok()) << status.ToString();
  lock.unlock();
  other.join();
}

// Whoever published the last part died before the version record.
TEST_F(LevelsTest, AWaitFinishesWhatOnlyLacksItsRecord) {
  const Generation generation = Store(3);
  ASSERT_TRUE(catalog().store().Remove(keys::VersionKey(generation)).ok());
  Taken(3);
  EXPECT_TRUE(Wait(3).ok());
  EXPECT_TRUE(InspectGeneration(catalog(), generation)->complete);
}

TEST_F(LevelsTest, AStoreThatCannotTellIsAnErrorAndNoLevel) {
  Taken(3);
  Store(3);
  fs_.faults().Add({.calls = CallsOf(Call::kList), .count = os::testing::kForEver, .errno_value = EIO});
  EXPECT_EQ(TestCode(3), Code::kIo);
  EXPECT_EQ(Wait(3).code(), Code::kIo);
  EXPECT_FALSE(core_->superseded);
}

TEST_F(LevelsTest, ANewerAttemptEndsEveryWait) {
  Taken(3);
  Store(3);
  BeginNewerAttempt();
  EXPECT_EQ(TestCode(3), Code::kBusy) << "what is there is not to be counted on";
  EXPECT_TRUE(core_->superseded);
  fs_.faults().Add({.count = os::testing::kForEver, .errno_value = EIO});
  EXPECT_EQ(Wait(3).code(), Code::kBusy) << "without asking again";
}

TEST_F(LevelsTest, WhatWasMeantForALostAgentIsPendingUntilTheStoreHasIt) {
  EXPECT_TRUE(levels_.Pending().ok());
  EXPECT_TRUE(levels_.Cleanup("").ok()) << "nothing is on the node";
  TakenVersion* const taken = Taken(3);
  EXPECT_TRUE(levels_.Pending().ok());
  taken->in_store = false;
  EXPECT_EQ(levels_.Pending().code(), Code::kBusy);
  EXPECT_EQ(levels_.Drain(seconds(1)).status().code(), Code::kUnavailable);
  session_.AddFailure(taken, Status(Code::kIo, "full"));
  EXPECT_TRUE(levels_.Pending().ok()) << "it has failed for good";
  EXPECT_EQ(Wait(3).code(), Code::kIo);
  taken->flush_failure = Status::Ok();
  Store(3);
  EXPECT_TRUE(levels_.Pending().ok());
  EXPECT_TRUE(levels_.Drain(seconds(1)).ok());
}

TEST_F(LevelsTest, APinHoldsAVersionAndItsEndLetsItGo) {
  core_->job.keys.keep_versions = 1;
  Store(3);
  StoreRank(0, 4);
  EXPECT_EQ(levels_.Pin("wave", 4, true).code(), Code::kFailedPrecondition) << "not complete";
  EXPECT_EQ(levels_.Pin("wave", 2, true).code(), Code::kFailedPrecondition) << "not there";
  ASSERT_TRUE(levels_.Pin("wave", 3, true).ok());
  Store(5);
  const auto there = [&](int64_t version) { return InspectGeneration(catalog(), At(version)).ok(); };
  ASSERT_TRUE(levels_.Pin("wave", 5, false).ok());
  EXPECT_TRUE(there(3));
  ASSERT_TRUE(levels_.Pin("wave", 3, false).ok());
  EXPECT_FALSE(there(3));
  EXPECT_TRUE(there(5));
}

}  // namespace
}  // namespace kedge::client
