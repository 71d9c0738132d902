// What a rank without an agent makes of the store: levels, images for a restart, objects read from them, and its lease.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <mutex>
#include <thread>
#include <tuple>

#include "client/checkpoint/levels.h"
#include "client/regions/object_stream.h"
#include "client/restart/image_opener.h"
#include "client/session/watcher.h"
#include "client/testing/core.h"
#include "os/testing/simulated_file_system.h"
#include "store/attempts.h"
#include "store/record_io.h"
#include "store/retention.h"
#include "store/testing/version_maker.h"

namespace kedge::client {
namespace {

using kedge::testing::ContentByte;
using kedge::testing::PublishRanks;
using kedge::testing::TakeVersion;
using os::testing::Call;
using os::testing::CallsOf;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoredTest : public ::testing::Test {
 protected:
  Generation At(int64_t version, uint32_t attempt = 1) const {
    return {catalog().id(), "job", "wave", version, attempt, static_cast<uint32_t>(version) + 1};
  }
  const Catalog& catalog() const { return *core_->catalog; }
  // By both ranks, as others saw to it.
  Generation Store(int64_t version) {
    const Status status = TakeVersion(catalog(), At(version), {});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return At(version);
  }
  Generation StoreRank(uint32_t rank, int64_t version) {
    const auto outcome = PublishRanks(catalog(), At(version), rank, 1, {});
    EXPECT_TRUE(outcome.ok()) << outcome.status().ToString();
    return At(version);
  }
  // This context's own taking of At(version), captured inline.
  TakenVersion* Taken(int64_t version) {
    ledger_.CatchUp("wave", static_cast<uint32_t>(version) + 1);
    TakenVersion* const taken = ledger_.Begin("wave", version, true).value();
    ledger_.Captured(taken);
    taken->in_store = true;
    return taken;
  }
  void BeginNewerAttempt() {
    const AttemptRecord record = RecordOf(RequestOfThisProcess("job", 60, 2), catalog().id(), 2);
    ASSERT_TRUE(catalog().EnsureJob("job").ok());
    ASSERT_TRUE(
        catalog().store().PutIfAbsent(keys::AttemptKey("job", 2), Encoded(record), catalog().owner(), Folders::kCreate).ok());
  }
  void Fail(const std::string& path, uint64_t count = os::testing::kForEver) {
    fs_.faults().Add({.calls = CallsOf(Call::kOpen, Call::kPread), .path_contains = path, .count = count, .errno_value = EIO});
  }

  os::testing::SimulatedFileSystem fs_;
  const std::unique_ptr<Core> core_ = testing::MakeStartedCore(fs_);
  Ledger ledger_{core_->catalog->id(), "job", 1, {}};
  Session session_{core_.get(), &ledger_};
};

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

class OpenerTest : public StoredTest {
 protected:
  static std::vector<int64_t> VersionsOf(const std::vector<RestoreCandidate>& candidates) {
    std::vector<int64_t> versions;
    for (const RestoreCandidate& candidate : candidates) versions.push_back(candidate.version);
    return versions;
  }
  std::vector<int64_t> Stored(int64_t at_most = -1, const std::optional<RestoreCandidate>& known = {}) {
    const StoredCandidates stored = opener_.Stored("wave", at_most, known);
    EXPECT_TRUE(stored.status.ok()) << stored.status.ToString();
    std::vector<int64_t> versions;
    for (const StoredCandidate& one : stored.candidates) versions.push_back(one.candidate.version);
    return versions;
  }
  RestoreCandidate Candidate(int64_t version, uint32_t ranks = 2) const { return {version, 1, At(version).take, ranks}; }

  ImageOpener opener_{core_.get(), &session_};
};

TEST_F(OpenerTest, WhatTheStoreHasOfAVersionIsACandidateForThoseRanks) {
  EXPECT_THAT(Stored(), IsEmpty());
  Store(3);
  StoreRank(1, 4);
  ASSERT_TRUE(catalog().store().Remove(keys::VersionKey(Store(5))).ok());
  EXPECT_THAT(Stored(), ElementsAre(5, 4, 3));
  EXPECT_TRUE(InspectGeneration(catalog(), At(5))->complete) << "who finds all parts finishes it";
  EXPECT_THAT(Stored(/*at_most=*/4), ElementsAre(4, 3));
  EXPECT_THAT(Stored(-1, Candidate(4)), ElementsAre(5)) << "only what may be newer";
  ImageOpener::Found on_nodes = opener_.FindOnNodes("wave", 0, true);
  EXPECT_TRUE(on_nodes.agent.ok()) << "without an agent the store has what there is";
  EXPECT_THAT(on_nodes.candidates, IsEmpty());
  on_nodes.candidates = {Candidate(9), Candidate(3)};
  const StoredCandidates stored = opener_.Stored("wave", -1, {});
  EXPECT_THAT(VersionsOf(opener_.Merge("wave", -1, 0, on_nodes, stored)), ElementsAre(9, 5, 3)) << "each once";
  EXPECT_THAT(VersionsOf(opener_.Merge("wave", 8, 1, on_nodes, stored)), ElementsAre(5, 4, 3));
}

TEST_F(OpenerTest, WhatSomebodyHasRemovedIsToldOfAlsoWhereNothingElseIsLookedInto) {
  Store(3);
  Store(4);
  ASSERT_TRUE(WithdrawVersion(catalog(), At(4)).ok());
  EXPECT_THAT(Stored(), ElementsAre(3));
  const StoredCandidates stored = opener_.Stored("wave", -1, Candidate(4));
  ASSERT_EQ(stored.withdrawn.size(), 1u);
  EXPECT_EQ(stored.withdrawn.front().version, 4);
  EXPECT_THAT(stored.candidates, IsEmpty());
}

TEST_F(OpenerTest, AnErrorOfAMomentHidesNoVersion) {
  Store(3);
  Store(4);
  Fail(keys::VersionKey(At(4)), /*count=*/1);
  EXPECT_THAT(Stored(), ElementsAre(4, 3));
}

TEST_F(OpenerTest, AVersionThatCannotBeReadIsSaidBesideWhatCanBeHad) {
  Store(3);
  Store(4);
  Fail(keys::GenerationFolder(At(4)));
  const StoredCandidates stored = opener_.Stored("wave", -1, {});
  EXPECT_EQ(stored.status.code(), Code::kIo);
  ASSERT_EQ(stored.candidates.size(), 1u);
  EXPECT_EQ(stored.candidates[0].candidate, Candidate(3));
}

TEST_F(OpenerTest, AStoreThatIsNotThereHasNotGotNone) {
  ASSERT_TRUE(fs_.Rename("/store", "/away").ok());
  EXPECT_EQ(opener_.Stored("wave", -1, {}).status.code(), Code::kUnavailable);
}

TEST_F(OpenerTest, OnlyTheVeryImageIsOpened) {
  Store(3);
  StoreRank(1, 4);
  const auto image = opener_.Open("wave", Candidate(3), 1);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  EXPECT_FALSE((*image)->is_local());
  std::string memory(5000, '\0');
  ASSERT_TRUE((*image)->reader().ReadRegions({{0, reinterpret_cast<std::byte*>(memory.data())}}).ok());
  for (const size_t at : {0u, 4095u, 4999u}) EXPECT_EQ(std::byte(memory[at]), ContentByte({At(3), 1, 2}, 0, at)) << at;
  EXPECT_TRUE(opener_.Open("wave", Candidate(4), 1).ok()) << "though rank 0's is missing";
  EXPECT_EQ(opener_.Open("wave", Candidate(4), 0).status().code(), Code::kNotFound);
  EXPECT_EQ(opener_.Open("wave", Candidate(7), 1).status().code(), Code::kNotFound);
  EXPECT_EQ(opener_.Open("wave", Candidate(3), 2).status().code(), Code::kNotFound);
  EXPECT_EQ(opener_.Open("wave", Candidate(3, /*ranks=*/3), 1).status().code(), Code::kCorrupt);
  ASSERT_TRUE(fs_.Unlink("/store/" + keys::ImageKey(At(3), 1)).ok());
  EXPECT_EQ(opener_.Open("wave", Candidate(3), 1).status().code(), Code::kNotFound);
}

class ObjectStreamTest : public OpenerTest {
 protected:
  ObjectStreamTest() {
    Store(3);
    image_ = opener_.Open("wave", Candidate(3), 0).value();
    reader_.image = &image_->reader();
    std::tie(reader_.next_extent, reader_.last_extent) = image_->reader().ExtentsOf(0);
    reader_.bytes_left = image_->record().regions[0].bytes;
  }
  // The first wrong byte of what was read; the length when there is none.
  size_t Matching(const std::string& read, uint64_t offset) const {
    size_t at = 0;
    while (at < read.size() && std::byte(read[at]) == ContentByte({At(3), 0, 2}, 0, offset + at)) ++at;
    return at;
  }

  std::unique_ptr<OpenImage> image_;
  kedge_reader reader_;
};

TEST_F(ObjectStreamTest, PortionsOfAnySizeAreTheObjectsBytes) {
  ASSERT_GT(reader_.last_extent - reader_.next_extent, 3u);
  uint64_t offset = 0;
  for (const size_t portion : {0u, 1u, 1499u, 1u, 3000u, 499u}) {
    std::string read(portion, '\0');
    ASSERT_TRUE(reader_.Read(read.data(), read.size()).ok());
    EXPECT_EQ(Matching(read, offset), portion) << "from " << offset;
    offset += portion;
  }
  EXPECT_EQ(reader_.bytes_left, 0u);
  EXPECT_EQ(offset, 5000u);
  EXPECT_TRUE(reader_.Read(nullptr, 0).ok());
}

TEST_F(ObjectStreamTest, WhoAsksForMoreThanThereIsHasFailedForGood) {
  std::string read(5001, '\0');
  const Status status = reader_.Read(read.data(), 5001);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("5000 bytes left"), HasSubstr("5001")));
  EXPECT_EQ(reader_.Read(read.data(), 1).code(), Code::kInvalidArgument);
}

TEST_F(ObjectStreamTest, OfABadExtentNoByteIsSeen) {
  const Extent extent = image_->record().extents[1];
  const auto file = fs_.Open("/store/" + keys::ImageKey(At(3), 0), os::OpenFlags::kReadWrite).value();
  const uint64_t last = image_->record().chunks[extent.chunk].object_offset + extent.chunk_offset + extent.bytes - 1;
  char byte = 0;
  ASSERT_TRUE(file->Pread(&byte, 1, last).ok());
  byte = static_cast<char>(byte ^ 1);
  ASSERT_TRUE(file->Pwrite(&byte, 1, last).ok());
  std::string read(3000, '\0');
  EXPECT_EQ(reader_.Read(read.data(), read.size()).code(), Code::kCorrupt);
  EXPECT_EQ(Matching(read, 0), extent.region_offset) << "the extent before it was good";
  EXPECT_EQ(read.substr(extent.region_offset), std::string(3000 - extent.region_offset, '\0'));
  EXPECT_EQ(reader_.Read(read.data(), 1).code(), Code::kCorrupt) << "it stays so";
}

class LeaseTest : public StoredTest {
 protected:
  LeaseTest() {
    core_->job.lease = milliseconds(40);
    LeaseWatch watch;
    EXPECT_TRUE(AcquireAttempt(catalog(), RequestOfThisProcess("job", 0.04, 2), &watch).ok());
  }
  template <typename Condition>
  static bool Eventually(Condition condition) {
    for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(1));
    return condition();
  }
  int64_t Stamp() const { return catalog().store().Stamp(keys::AttemptKey("job", 1)).value(); }

  Watcher watcher_{core_.get(), &session_};
};

TEST_F(LeaseTest, IsRenewedHoweverLongACallHoldsTheLock) {
  const std::lock_guard in_a_call(core_->mutex);
  int64_t stamp = Stamp();
  ASSERT_TRUE(watcher_.Start().ok());
  for (int renewals = 0; renewals < 2; ++renewals) {
    EXPECT_TRUE(Eventually([&] { return Stamp() != stamp; }));
    stamp = Stamp();
  }
  watcher_.Stop();
  stamp = Stamp();
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_EQ(Stamp(), stamp) << "it has stopped";
}

TEST_F(LeaseTest, ANewerAttemptIsHeardOfByWhoeverAsksNext) {
  fs_.faults().Add({.calls = CallsOf(Call::kList), .count = 1, .errno_value = EIO});
  const int64_t stamp = Stamp();
  ASSERT_TRUE(watcher_.Start().ok());
  EXPECT_TRUE(Eventually([&] { return Stamp() != stamp; })) << "one error of the store is no newer attempt";
  EXPECT_FALSE(core_->superseded);
  BeginNewerAttempt();
  EXPECT_TRUE(Eventually([&] { return core_->superseded.load(); }));
  const Status status = core_->CheckNotSuperseded();
  EXPECT_EQ(status.code(), Code::kBusy);
  EXPECT_THAT(status.message(), HasSubstr("job"));
}

}  // namespace
}  // namespace kedge::client
