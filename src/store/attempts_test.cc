// Who holds a job: every way in which an attempt ends, and every way in which it does not.
#include "store/attempts.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "base/testing/manual_clock.h"
#include "os/files/files.h"
#include "os/testing/simulated_file_system.h"
#include "store/posix/posix_store.h"
#include "store/publish.h"
#include "store/testing/version_maker.h"

namespace kedge {
namespace {

class AttemptsTest : public ::testing::Test {
 protected:
  AttemptsTest()
      : store_(MakePosixStore(fs_, {.path = "/store"})), catalog_(Catalog::OpenOrCreate(*store_, {"node1", 0, "r0"}).value()) {}

  // A launch on `host`, a machine of that name unless said otherwise, whose processes live as `alive_` says.
  AttemptRequest From(const std::string& host, int64_t pid, const std::string& boot = "boot-1") {
    AttemptRequest request;
    request.job = "job";
    request.host = host;
    request.boot_id = host + boot;
    request.machine_id = host;
    request.pid_namespace = 7;
    request.pid = pid;
    request.process_start_time = 100;
    request.lease_seconds = 60;
    request.ranks = 4;
    request.is_alive = [this](int64_t process, uint64_t) { return alive_.contains(process); };
    return request;
  }
  Result<AttemptRecord> TryAcquire(const AttemptRequest& request) { return AcquireAttempt(catalog_, request, &watch_); }
  uint32_t Acquire(const AttemptRequest& request) {
    const auto record = TryAcquire(request);
    EXPECT_TRUE(record.ok()) << record.status().ToString();
    return record.ok() ? record->attempt : 0;
  }
  // Our own clock goes on, while somebody else's record stays as it is.
  void Pass(double seconds) { clock_.Advance(FromSeconds(seconds)); }
  // The holder gives a sign of life, by whatever clock.
  void Renew(uint32_t attempt) { ASSERT_TRUE(RenewAttempt(catalog_, "job", attempt).ok()); }
  // Its record looks so much older by the store's clock.
  void Age(const std::string& key, double seconds) {
    const std::string path = "/store/" + key;
    const int64_t modified_ns = fs_.Stat(path).value().modified_ns;
    ASSERT_TRUE(fs_.SetModifiedTime(path, modified_ns - FromSeconds(seconds).count()).ok());
  }

  os::testing::SimulatedFileSystem fs_;
  std::unique_ptr<Store> store_;
  Catalog catalog_;
  std::set<int64_t> alive_ = {10, 20};
  testing::ManualClock clock_;
  LeaseWatch watch_{clock_};
};

TEST_F(AttemptsTest, TheFirstIsOneAndItsRecordSaysWho) {
  const AttemptRecord record = TryAcquire(From("a", 10)).value();
  EXPECT_EQ(record.attempt, 1u);
  const auto newest = NewestAttempt(catalog_, From("b", 20)).value();
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->life, Life::kLeased);
  EXPECT_EQ(NewestAttempt(catalog_, From("a", 20)).value()->life, Life::kLives);
  EXPECT_EQ(newest->record, record);
  EXPECT_EQ(record.host, "a");
  EXPECT_EQ(record.ranks, 4u);
}

TEST_F(AttemptsTest, ALiveHolderIsNamed) {
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  for (const AttemptRequest& request : {From("b", 20), From("a", 20)}) {
    const Status status = TryAcquire(request).status();
    EXPECT_EQ(status.code(), Code::kBusy);
    EXPECT_NE(status.message().find("held by attempt 1 (process 10 on a"), std::string::npos) << status.message();
  }
  AttemptRequest other_job = From("b", 20);
  other_job.job = "other";
  EXPECT_EQ(Acquire(other_job), 1u);
}

TEST_F(AttemptsTest, AnEndedAttemptIsFreeAtOnce) {
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  ASSERT_TRUE(EndAttempt(catalog_, "job", 1).ok());
  ASSERT_TRUE(EndAttempt(catalog_, "job", 1).ok()) << "again";
  EXPECT_EQ(NewestAttempt(catalog_, From("b", 20)).value()->why, "ended");
  EXPECT_EQ(Acquire(From("b", 20)), 2u);
}

TEST_F(AttemptsTest, ADeadProcessFreesTheJobOnItsHostOnly) {
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  alive_.erase(10);
  EXPECT_EQ(TryAcquire(From("b", 20)).status().code(), Code::kBusy) << "b cannot know";
  EXPECT_EQ(Acquire(From("a", 20)), 2u);
  EXPECT_EQ(NewestAttempt(catalog_, From("a", 20)).value()->record.attempt, 2u);
}

TEST_F(AttemptsTest, WhatIsNotSeenFromHereIsNotTakenForDead) {
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  AttemptRequest container = From("a", 20);
  container.pid_namespace = 8;
  AttemptRequest elsewhere = From("a", 20);
  elsewhere.machine_id = "another one of that name";
  AttemptRequest unknown = From("a", 20);
  unknown.pid_namespace = 0;
  alive_.clear();
  for (const AttemptRequest& request : {container, From("a", 20, "a pod's next boot"), elsewhere, unknown}) {
    EXPECT_EQ(TryAcquire(request).status().code(), Code::kBusy);
    EXPECT_EQ(NewestAttempt(catalog_, request).value()->life, Life::kLeased);
  }
  EXPECT_TRUE(RenewAttempt(catalog_, "job", 1).ok()) << "it was left alone";
  Pass(61);
  EXPECT_EQ(TryAcquire(container).status().code(), Code::kBusy) << "it was renewed since";
  Pass(61);
  EXPECT_EQ(Acquire(container), 2u);
}

TEST_F(AttemptsTest, ALeaseRunsOutWhenItIsWatchedUnchangedForItsWholeLength) {
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  EXPECT_EQ(TryAcquire(From("b", 20)).status().code(), Code::kBusy);
  Pass(59);
  EXPECT_EQ(TryAcquire(From("b", 20)).status().code(), Code::kBusy);
  Renew(1);
  Pass(2);
  EXPECT_EQ(TryAcquire(From("b", 20)).status().code(), Code::kBusy) << "it was renewed";
  Pass(59);
  EXPECT_EQ(TryAcquire(From("b", 20)).status().code(), Code::kBusy) << "that is not as long yet";
  Pass(2);
  EXPECT_EQ(Acquire(From("b", 20)), 2u);
}

TEST_F(AttemptsTest, ClocksOfOtherMachinesDoNotMatter) {
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  // Lustre and GPFS stamp with the clock of the client that writes: that of a is an hour behind, then an hour ahead.
  for (const double behind : {3600.0, -3600.0}) {
    Age(keys::AttemptKey("job", 1), behind);
    EXPECT_EQ(TryAcquire(From("b", 20)).status().code(), Code::kBusy) << behind;
    Pass(59);
    EXPECT_EQ(TryAcquire(From("b", 20)).status().code(), Code::kBusy) << behind;
  }
  Pass(2);
  EXPECT_EQ(Acquire(From("b", 20)), 2u) << "that it is ahead does not keep it alive";
}

TEST_F(AttemptsTest, ARenewalIsSeenAlsoWhenTheClockWasSetBack) {
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  Age(keys::AttemptKey("job", 1), -7200);
  EXPECT_EQ(TryAcquire(From("b", 20)).status().code(), Code::kBusy);
  for (int i = 0; i < 5; ++i) {
    Pass(30);
    Renew(1);
    EXPECT_EQ(TryAcquire(From("b", 20)).status().code(), Code::kBusy);
  }
}

TEST_F(AttemptsTest, WhoWasTakenOverIsTold) {
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  EXPECT_EQ(TryAcquire(From("b", 20)).status().code(), Code::kBusy);
  EXPECT_TRUE(CheckNotTakenOver(catalog_, "job", 1).ok());
  Pass(100);
  ASSERT_EQ(Acquire(From("b", 20)), 2u);
  for (const Status& status : {RenewAttempt(catalog_, "job", 1), CheckNotTakenOver(catalog_, "job", 1)}) {
    EXPECT_EQ(status.code(), Code::kBusy);
    EXPECT_NE(status.message().find("attempt 2 has taken over"), std::string::npos) << status.message();
  }
  EXPECT_TRUE(RenewAttempt(catalog_, "job", 2).ok());
}

TEST_F(AttemptsTest, WaitsForTheLeaseToRunOutAndNoLonger) {
  AttemptRequest first = From("a", 10);
  first.lease_seconds = 0.3;
  ASSERT_EQ(Acquire(first), 1u);
  AttemptRequest second = From("b", 20);
  second.wait = std::chrono::milliseconds(50);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(TryAcquire(second).status().code(), Code::kBusy);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(50));
  // Our clock does not run while we sleep; somebody else's end is what the waiting notices.
  second.wait = std::chrono::seconds(30);
  std::thread ender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_TRUE(EndAttempt(catalog_, "job", 1).ok());
  });
  EXPECT_EQ(Acquire(second), 2u);
  ender.join();
}

TEST_F(AttemptsTest, OfManyThatRaceOneWins) {
  std::atomic<int> won = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      LeaseWatch watch(clock_);  // each launch has its own
      const auto record = AcquireAttempt(catalog_, From("a", 10), &watch);
      if (record.ok()) ++won;
      EXPECT_TRUE(record.ok() || record.status().code() == Code::kBusy) << record.status().ToString();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, 1);
}

TEST_F(AttemptsTest, NumbersExceedThoseOfGenerationsThere) {
  const Generation copied{catalog_.id(), "job", "wave", 1, 41, 1};
  ASSERT_TRUE(testing::TakeVersion(catalog_, copied, {}).ok());
  EXPECT_EQ(Acquire(From("a", 10)), 42u);
}

TEST_F(AttemptsTest, ATornRecordHoldsNothing) {
  ASSERT_TRUE(catalog_.EnsureJob("job").ok());
  ASSERT_TRUE(store_->PutIfAbsent(keys::AttemptKey("job", 1), {}, {}, Folders::kCreate).ok());
  EXPECT_EQ(Acquire(From("a", 10)), 2u);
}

TEST_F(AttemptsTest, AForeignRecordIsRefused) {
  ASSERT_TRUE(catalog_.EnsureJob("job").ok());
  Buffer foreign;
  Encode(AttemptRecord{{.high = 1, .low = 1}, "job", 1, "x", "y", "z", 1, 1, 1, 60, 1, 1}, &foreign);
  ASSERT_TRUE(store_->PutIfAbsent(keys::AttemptKey("job", 1), foreign, {}, Folders::kCreate).ok());
  EXPECT_EQ(TryAcquire(From("a", 10)).status().code(), Code::kMismatch);
}

TEST_F(AttemptsTest, AgentsThatDrainGiveSignsOfLifeAndHoldUpNobody) {
  EXPECT_EQ(SilentSeconds(catalog_, "job", 1).status().code(), Code::kNotFound);
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  Age(keys::AttemptKey("job", 1), 1000);
  EXPECT_NEAR(SilentSeconds(catalog_, "job", 1).value(), 1000, 1);
  ASSERT_TRUE(MarkDraining(catalog_, "job", 1).ok());
  EXPECT_LT(SilentSeconds(catalog_, "job", 1).value(), 1);
  Age(keys::AttemptDrainKey("job", 1), 500);
  EXPECT_NEAR(SilentSeconds(catalog_, "job", 1).value(), 500, 1);
  ASSERT_TRUE(MarkDraining(catalog_, "job", 1).ok());
  EXPECT_LT(SilentSeconds(catalog_, "job", 1).value(), 1);
  EXPECT_EQ(TryAcquire(From("b", 20)).status().code(), Code::kBusy);
  Pass(61);
  ASSERT_TRUE(MarkDraining(catalog_, "job", 1).ok());
  EXPECT_EQ(Acquire(From("b", 20)), 2u);
}

TEST_F(AttemptsTest, AnAttemptIsSilentWhenAllItsSignsOfLifeWereWatchedForLongEnough) {
  const auto silence = [&](uint32_t attempt) { return SilenceOf(catalog_, From("b", 20), attempt, &watch_).value(); };
  EXPECT_EQ(silence(1), Silence::kSilent) << "it never was";
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  EXPECT_EQ(silence(1), Silence::kUnknown);
  EXPECT_EQ(SilenceOf(catalog_, From("a", 20), 1, &watch_).value(), Silence::kBroken) << "a sees it live";
  Renew(1);
  EXPECT_EQ(silence(1), Silence::kBroken);
  ASSERT_TRUE(MarkDraining(catalog_, "job", 1).ok());
  Pass(61);
  EXPECT_EQ(silence(1), Silence::kUnknown) << "of its agents nothing is known yet";
  ASSERT_TRUE(MarkDraining(catalog_, "job", 1).ok());
  EXPECT_EQ(silence(1), Silence::kBroken);
  Pass(61);
  EXPECT_EQ(silence(1), Silence::kSilent);
  ASSERT_EQ(Acquire(From("b", 20)), 2u);
  ASSERT_TRUE(MarkDraining(catalog_, "job", 1).ok());
  EXPECT_EQ(silence(1), Silence::kBroken) << "taken over from, and still carried to the store";
  EXPECT_FALSE(IsSilent(catalog_, "job", 1, &watch_));
  Pass(61);
  EXPECT_TRUE(IsSilent(catalog_, "job", 1, &watch_)) << "its agents have died";
}

TEST_F(AttemptsTest, BadRequestsAreRefused) {
  AttemptRequest request = From("a", 10);
  request.lease_seconds = 0;
  EXPECT_EQ(TryAcquire(request).status().code(), Code::kInvalidArgument);
  request = From("a", 10);
  request.ranks = 0;
  EXPECT_EQ(TryAcquire(request).status().code(), Code::kInvalidArgument);
  request = From("a", 10);
  request.job = "";
  EXPECT_EQ(TryAcquire(request).status().code(), Code::kInvalidArgument);
}

TEST_F(AttemptsTest, ThisProcessIsAliveToItself) {
  AttemptRequest self = RequestOfThisProcess("job", 60, 1);
  ASSERT_EQ(Acquire(self), 1u);
  EXPECT_EQ(TryAcquire(self).status().code(), Code::kBusy);
  // Another process with that pid, in other words: started at another time.
  self.process_start_time += 1;
  ASSERT_TRUE(EndAttempt(catalog_, "job", 1).ok());
  ASSERT_EQ(Acquire(self), 2u);
  EXPECT_EQ(Acquire(RequestOfThisProcess("job", 60, 1)), 3u);
}

TEST_F(AttemptsTest, HistoryCountsWhoDiedAndHowLongTheyRan) {
  EXPECT_TRUE(ReadAttemptHistory(catalog_, "job", 9).value().failed.empty());
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  ASSERT_TRUE(EndAttempt(catalog_, "job", 1).ok());
  ASSERT_EQ(Acquire(From("a", 10)), 2u);
  alive_.erase(10);
  ASSERT_EQ(Acquire(From("a", 20)), 3u);
  alive_.erase(20);
  ASSERT_EQ(Acquire(From("a", 30)), 4u);
  EXPECT_EQ(ReadAttemptHistory(catalog_, "job", 4).value().failed, (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(ReadAttemptHistory(catalog_, "job", 3).value().failed, (std::vector<uint32_t>{2}));
  EXPECT_GE(ReadAttemptHistory(catalog_, "job", 4).value().seconds, 0);
}

TEST_F(AttemptsTest, ALaunchGetsANumberBeyondWhatTheNodesKnow) {
  AttemptRequest request = From("a", 10);
  request.newer_than = 70000;
  EXPECT_EQ(Acquire(request), 70001u);
}

TEST_F(AttemptsTest, NumbersChosenWithoutTheStoreAreGreaterAndKeepApart) {
  std::set<uint32_t> chosen;
  for (int i = 0; i < 100; ++i) {
    const uint32_t attempt = AttemptBeyond(7);
    EXPECT_GT(attempt, 8u) << "8 is what a launch with the store gets";
    chosen.insert(attempt);
  }
  EXPECT_GT(chosen.size(), 90u);
  EXPECT_EQ(AttemptBeyond(UINT32_MAX - 1), UINT32_MAX) << "never around to small ones";
}

// What an attempt that began without the store may do there.
class UnrecordedTest : public AttemptsTest {
 protected:
  UnrecordedTest() {
    EXPECT_EQ(Acquire(From("a", 10)), 1u);
    record_ = RecordOf(From("b", 20), catalog_.id(), 5000);
    unrecorded_.Await(record_);
  }
  Generation GenerationOf(uint32_t attempt) const { return {catalog_.id(), "job", "name", 1, attempt, 1}; }
  Status Register() { return RegisterAttempt(unrecorded_, record_, From("b", 20), &watch_); }

  const Catalog unrecorded_ = Catalog::Assume(*store_, catalog_.id(), {"node2", 5000, "r0"});
  AttemptRecord record_;
};

TEST_F(UnrecordedTest, PublishesNothingBeforeItsRecordIsThere) {
  ASSERT_TRUE(EndAttempt(catalog_, "job", 1).ok());
  EXPECT_EQ(PrepareGeneration(unrecorded_, GenerationOf(5000)).code(), Code::kUnavailable);
  EXPECT_EQ(LookAfterAttempt(unrecorded_, "job", 5000, /*gives_sign=*/false).status().code(), Code::kUnavailable);
  EXPECT_EQ(fs_.Stat("/store/" + keys::NamesFolder("job")).status().code(), Code::kNotFound);
  ASSERT_TRUE(Register().ok());
  EXPECT_TRUE(Register().ok()) << "once more: the answer to the first may have been lost";
  EXPECT_TRUE(PrepareGeneration(unrecorded_, GenerationOf(5000)).ok());
  EXPECT_TRUE(LookAfterAttempt(unrecorded_, "job", 5000, /*gives_sign=*/false).ok());
  EXPECT_EQ(NewestAttempt(catalog_, From("a", 10)).value()->record, record_);
  EXPECT_TRUE(RenewAttempt(unrecorded_, "job", 5000).ok());
}

TEST_F(UnrecordedTest, OthersPublishMeanwhile) {
  EXPECT_TRUE(PrepareGeneration(unrecorded_, GenerationOf(1)).ok());
}

TEST_F(UnrecordedTest, WaitsForOneThatLives) {
  EXPECT_EQ(Register().code(), Code::kUnavailable);
  EXPECT_TRUE(RenewAttempt(catalog_, "job", 1).ok()) << "it was not taken over";
  ASSERT_TRUE(EndAttempt(catalog_, "job", 1).ok());
  EXPECT_TRUE(Register().ok());
}

TEST_F(UnrecordedTest, GivesOneThatCouldNotRenewItsLeaseTheTimeToDoSo) {
  EXPECT_EQ(Register().code(), Code::kUnavailable);
  Pass(50);
  watch_.BeginAgain();  // the store was away once more
  EXPECT_EQ(Register().code(), Code::kUnavailable);
  Pass(59);
  EXPECT_EQ(Register().code(), Code::kUnavailable);
  Renew(1);
  Pass(2);
  EXPECT_EQ(Register().code(), Code::kUnavailable) << "it lives";
  Pass(61);
  EXPECT_TRUE(Register().ok());
}

TEST_F(UnrecordedTest, GivesWayToANewerOneThatTheStoreKnows) {
  AttemptRequest newer = From("c", 30);
  newer.newer_than = 6000;
  ASSERT_TRUE(EndAttempt(catalog_, "job", 1).ok());
  ASSERT_EQ(Acquire(newer), 6001u);
  EXPECT_EQ(Register().code(), Code::kBusy);
  EXPECT_EQ(PrepareGeneration(unrecorded_, GenerationOf(5000)).code(), Code::kBusy) << "it would wait for ever";
}

TEST_F(UnrecordedTest, HasBeenNotedBeforeANewerOneCame) {
  ASSERT_TRUE(EndAttempt(catalog_, "job", 1).ok());
  ASSERT_TRUE(Register().ok());
  ASSERT_TRUE(EndAttempt(catalog_, "job", 5000).ok());
  ASSERT_EQ(Acquire(From("c", 30)), 5001u);
  EXPECT_TRUE(Register().ok()) << "by a node that has not heard of it";
}

TEST_F(UnrecordedTest, GivesWayToAnotherOfTheSameNumber) {
  ASSERT_TRUE(EndAttempt(catalog_, "job", 1).ok());
  const AttemptRequest other = From("c", 30);
  ASSERT_TRUE(RegisterAttempt(catalog_, RecordOf(other, catalog_.id(), 5000), other, &watch_).ok());
  EXPECT_EQ(Register().code(), Code::kBusy);
  EXPECT_EQ(PrepareGeneration(unrecorded_, GenerationOf(5000)).code(), Code::kBusy) << "parts of two would be put together";
}

TEST_F(AttemptsTest, AStoreThatMayOnlyBeReadTellsWhoHasTakenOver) {
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  ASSERT_TRUE(EndAttempt(catalog_, "job", 1).ok());
  ASSERT_EQ(Acquire(From("b", 20)), 2u);
  fs_.faults().Add({.calls = CallsOf(os::testing::Call::kOpen),
                    .path_contains = ".tmp",
                    .count = os::testing::kForEver,
                    .errno_value = EROFS});
  const auto look = LookAfterAttempt(catalog_, "job", 1, /*gives_sign=*/true);
  ASSERT_TRUE(look.ok()) << look.status().ToString();
  EXPECT_EQ(look->taken_over.code(), Code::kBusy);
  EXPECT_FALSE(look->marked.ok());
  EXPECT_EQ(look->lease, FromSeconds(60));
}

TEST_F(AttemptsTest, WhereNobodyCanLookNoneIsSaidToHaveTakenOverOrNot) {
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  ASSERT_TRUE(EndAttempt(catalog_, "job", 1).ok());
  ASSERT_TRUE(fs_.Rename("/store", "/away").ok());
  EXPECT_EQ(CheckNotTakenOver(catalog_, "job", 1).code(), Code::kUnavailable);
  EXPECT_EQ(LookAfterAttempt(catalog_, "job", 1, /*gives_sign=*/false).status().code(), Code::kUnavailable);
  ASSERT_TRUE(fs_.Rename("/away", "/store").ok());
  EXPECT_TRUE(CheckNotTakenOver(catalog_, "job", 1).ok());
}

TEST_F(AttemptsTest, ItsOwnRecordIsNotWhatTellsWhetherOneWasTakenOver) {
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  ASSERT_TRUE(fs_.Unlink("/store/" + keys::AttemptKey("job", 1)).ok());
  const auto alone = LookAfterAttempt(catalog_, "job", 1, /*gives_sign=*/true);
  ASSERT_TRUE(alone.ok()) << alone.status().ToString();
  EXPECT_TRUE(alone->taken_over.ok());
  EXPECT_EQ(alone->marked.code(), Code::kNotFound);
  const AttemptRequest newer = From("b", 20);
  ASSERT_TRUE(RegisterAttempt(catalog_, RecordOf(newer, catalog_.id(), 2), newer, &watch_).ok());
  const auto taken_over = LookAfterAttempt(catalog_, "job", 1, /*gives_sign=*/false);
  ASSERT_TRUE(taken_over.ok()) << taken_over.status().ToString();
  EXPECT_EQ(taken_over->taken_over.code(), Code::kBusy);
}

// An attempt of the same number begins in the store that lies there now: it is not ours to renew or to end.
TEST_F(AttemptsTest, ItsSignsOfLifeAndItsEndStayOutOfAnotherStore) {
  ASSERT_EQ(Acquire(From("a", 10)), 1u);
  for (const bool other_is_there : {false, true}) {
    ASSERT_TRUE(fs_.Rename("/store", "/away").ok());
    ASSERT_TRUE(fs_.Mkdir("/store").ok());
    const auto other = MakePosixStore(fs_, {.path = "/store"});
    if (other_is_there) {
      const Catalog catalog = Catalog::OpenOrCreate(*other, {"node3", 0, "r0"}).value();
      ASSERT_TRUE(AcquireAttempt(catalog, From("c", 20), &watch_).ok());
      Age(keys::AttemptKey("job", 1), 30);
    }
    const Code code = other_is_there ? Code::kMismatch : Code::kUnavailable;
    EXPECT_EQ(RenewAttempt(catalog_, "job", 1).code(), code);
    EXPECT_EQ(EndAttempt(catalog_, "job", 1).code(), code);
    EXPECT_FALSE(fs_.Stat("/store/" + keys::AttemptEndKey("job", 1)).ok());
    ASSERT_TRUE(os::RemoveTree(fs_, "/store").ok());
    ASSERT_TRUE(fs_.Rename("/away", "/store").ok());
  }
  EXPECT_TRUE(EndAttempt(catalog_, "job", 1).ok());
}

TEST_F(UnrecordedTest, LeavesAnotherStoreAlone) {
  ASSERT_TRUE(fs_.Unlink("/store/" + std::string(keys::kStoreKey)).ok());
  EXPECT_EQ(Register().code(), Code::kUnavailable) << "no store is there";
  ASSERT_TRUE(Catalog::OpenOrCreate(*store_, {"node3", 0, "r0"}).ok());
  EXPECT_EQ(Register().code(), Code::kMismatch);
  EXPECT_EQ(PrepareGeneration(unrecorded_, GenerationOf(5000)).code(), Code::kMismatch);
}

}  // namespace
}  // namespace kedge
