// What somebody withdraws: it goes though nothing newer has come, also where the remover dies; and it does not come back.
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "os/testing/simulated_file_system.h"
#include "store/copy.h"
#include "store/garbage.h"
#include "store/posix/posix_store.h"
#include "store/publish.h"
#include "store/retention.h"
#include "store/sharing/base_version.h"
#include "store/still_there.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge {
namespace {

using os::testing::SimulatedFileSystem;
using testing::CheckVersion;
using testing::MakerOptions;
using testing::PublishRanks;
using testing::TakeVersion;

// One life of the store on a simulated disk; what another process sees of it is another World on the same disk.
struct World {
  // The catalog cannot be had where the process dies before it has it.
  explicit World(os::FileSystem& fs)
      : store(MakePosixStore(fs, {.path = "/store"})), catalog(Catalog::OpenOrCreate(*store, {"node1", 0, "tool"})) {}

  Generation At(int64_t version, uint32_t take = 0, const std::string& name = "wave") const {
    return {catalog->id(), "job", name, version, 1, take == 0 ? static_cast<uint32_t>(version) : take};
  }
  Status Take(int64_t version, uint32_t take = 0) { return TakeVersion(*catalog, At(version, take), options); }
  // The base that an image of the version takes, as its agent begins to write it.
  std::optional<Generation> Claim(int64_t version) {
    EXPECT_TRUE(PrepareGeneration(*catalog, At(version)).ok());
    return ClaimBase(*catalog, At(version)).value();
  }
  std::vector<VersionInfo> All() const {
    const auto versions = ListVersions(*catalog, "job", "wave");
    EXPECT_TRUE(versions.ok()) << versions.status().ToString();
    return versions.ok() ? *versions : std::vector<VersionInfo>();
  }
  std::vector<int64_t> Complete() const {
    std::vector<int64_t> complete;
    for (const VersionInfo& info : All()) {
      if (info.complete) complete.push_back(info.generation.version);
    }
    return complete;
  }
  std::set<std::string> FilesOf(const Generation& generation) const {
    std::set<std::string> names;
    const auto entries = store->List(keys::GenerationFolder(generation));
    if (!entries.ok()) return names;
    for (const StoreEntry& entry : *entries) names.insert(entry.name);
    return names;
  }
  // No attempt has a record, so that nobody is at work. What is incomplete goes, too, where orphans may be older than 0.
  GarbageReport Collect(double orphan_age_seconds = -1) {
    GarbageOptions garbage;
    garbage.orphan_age_seconds = orphan_age_seconds;
    garbage.incomplete_age_seconds = 0;
    const auto report = CollectGarbage(*catalog, garbage);
    EXPECT_TRUE(report.ok() && report->problems.empty());
    return report.ok() ? *report : GarbageReport();
  }
  std::vector<Generation> Withdrawn() const { return ReadWithdrawn(*catalog, "job", "wave").value(); }
  size_t Marks() const {
    size_t marks = 0;
    Generation ignored;
    for (const StoreEntry& entry : store->List(keys::NameFolder("job", "wave")).value()) {
      marks += keys::ParseWithdrawnName(entry.name, &ignored) ? 1 : 0;
    }
    return marks;
  }
  Status Withdraw(const Generation& generation) {
    return catalog.ok() ? WithdrawVersion(*catalog, generation).status() : catalog.status();
  }

  std::unique_ptr<Store> store;
  Result<Catalog> catalog;
  MakerOptions options{.ranks = 2, .ranks_per_part = 1, .region_bytes = {1300, 77}, .chunk_bytes = 1024, .piece_bytes = 500};
};

class WithdrawalTest : public ::testing::Test {
 protected:
  SimulatedFileSystem fs_;
  World world_{fs_};
};

TEST_F(WithdrawalTest, TheLastOneGoesAndOnlyItsMarkStays) {
  ASSERT_TRUE(world_.Take(1).ok());
  ASSERT_TRUE(world_.Withdraw(world_.At(1)).ok());
  EXPECT_TRUE(world_.Complete().empty());
  EXPECT_EQ(world_.FilesOf(world_.At(1)), std::set<std::string>{"removed"});
  EXPECT_EQ(world_.Withdrawn(), std::vector<Generation>{world_.At(1)});
  EXPECT_EQ(world_.Withdraw(world_.At(7)).code(), Code::kNotFound);
  EXPECT_TRUE(world_.Withdraw(world_.At(1)).ok()) << "again";
}

TEST_F(WithdrawalTest, ThePinnedStayAndSoDoTheOthers) {
  for (const int64_t version : {1, 2, 3}) ASSERT_TRUE(world_.Take(version).ok());
  ASSERT_TRUE(PinVersion(*world_.catalog, world_.At(3)).ok());
  const Status pinned = world_.Withdraw(world_.At(3));
  EXPECT_EQ(pinned.code(), Code::kBusy);
  EXPECT_NE(pinned.message().find("pinned"), std::string::npos) << pinned.message();
  ASSERT_TRUE(UnpinVersion(*world_.catalog, world_.At(3)).ok());
  ASSERT_TRUE(world_.Withdraw(world_.At(3)).ok());
  EXPECT_EQ(world_.Complete(), (std::vector<int64_t>{2, 1}));
  for (const int64_t version : {1, 2}) EXPECT_TRUE(CheckVersion(*world_.catalog, world_.At(version)).ok());
}

TEST_F(WithdrawalTest, OfOneThatALaterOneHasDisplacedNothingStays) {
  for (const int64_t version : {1, 2}) ASSERT_TRUE(world_.Take(version).ok());
  ASSERT_TRUE(world_.Withdraw(world_.At(1)).ok());
  EXPECT_TRUE(world_.FilesOf(world_.At(1)).empty());
  EXPECT_EQ(world_.Marks(), 0u);
  EXPECT_EQ(world_.Complete(), std::vector<int64_t>{2});
}

// By an agent that holds a copy, or that had not got so far.
TEST_F(WithdrawalTest, ItIsNotPublishedAgain) {
  ASSERT_TRUE(world_.Take(1).ok());
  ASSERT_TRUE(PublishRanks(*world_.catalog, world_.At(2), 0, 1, world_.options).ok());
  for (const int64_t version : {1, 2}) ASSERT_TRUE(world_.Withdraw(world_.At(version)).ok());
  const auto missing = FindMissing(*world_.catalog, {{world_.At(1), true, {0, 1}}, {world_.At(2), false, {0}}});
  ASSERT_TRUE(missing.ok());
  EXPECT_TRUE(missing->empty()) << "an agent would send it again";
  for (const int64_t version : {1, 2}) {
    const Status again = TakeVersion(*world_.catalog, world_.At(version), world_.options);
    EXPECT_EQ(again.code(), Code::kNotFound) << again.ToString();
    EXPECT_NE(again.message().find("has been removed"), std::string::npos) << again.message();
  }
  EXPECT_TRUE(world_.Complete().empty());
  world_.Collect();
  for (const int64_t version : {1, 2}) {
    EXPECT_EQ(world_.FilesOf(world_.At(version)), std::set<std::string>{"removed"}) << "gc takes what was written, not the mark";
  }
}

TEST_F(WithdrawalTest, ItsMarkStaysUntilALaterOneIsComplete) {
  for (const int64_t version : {1, 2}) ASSERT_TRUE(world_.Take(version).ok());
  ASSERT_TRUE(world_.Withdraw(world_.At(2)).ok());
  const auto is_withdrawn = [&] {
    const std::vector<VersionInfo> all = world_.All();
    return all.front().generation == world_.At(2) && IsWithdrawn(all.front(), all);
  };
  EXPECT_TRUE(is_withdrawn()) << "an older one says nothing";
  ASSERT_TRUE(ApplyRetention(*world_.catalog, "job", "wave", {1, {}}, nullptr).ok());
  EXPECT_TRUE(world_.Collect().items.empty());
  EXPECT_TRUE(is_withdrawn());
  ASSERT_TRUE(world_.Take(2, 9).ok()) << "the same number, taken anew";
  EXPECT_EQ(world_.Complete(), (std::vector<int64_t>{2, 1}));
  ASSERT_TRUE(ApplyRetention(*world_.catalog, "job", "wave", {2, {}}, nullptr).ok());
  EXPECT_TRUE(world_.FilesOf(world_.At(2)).empty());
  EXPECT_EQ(world_.Marks(), 0u);
  EXPECT_TRUE(FindMissing(*world_.catalog, {{world_.At(2), true, {0, 1}}})->empty());
}

// Version 2's chunk lies in version 1's object.
TEST_F(WithdrawalTest, ObjectsStayWhileAnotherVersionRefersToThem) {
  world_.options = {.ranks = 1, .ranks_per_part = 1, .region_bytes = {3000}};
  ASSERT_TRUE(world_.Take(1).ok());
  ASSERT_TRUE(testing::TakeOnTop(*world_.catalog, world_.At(2), world_.At(1)).ok());
  EXPECT_EQ(WithdrawVersion(*world_.catalog, world_.At(1)).value(), Removal::kEmptied);
  EXPECT_EQ(world_.Complete(), std::vector<int64_t>{2});
  EXPECT_TRUE(ReadImage(*world_.catalog, world_.At(2), 0).ok());
  EXPECT_TRUE(world_.store->OpenObject(keys::ImageKey(world_.At(1), 0)).ok());
  ASSERT_TRUE(world_.Withdraw(world_.At(2)).ok());
  EXPECT_TRUE(world_.Complete().empty());
  world_.Collect();
  for (const int64_t version : {1, 2}) EXPECT_EQ(world_.FilesOf(world_.At(version)), std::set<std::string>{"removed"});
}

// Its records go, and what was read of it before is still there.
TEST_F(WithdrawalTest, ObjectsStayWhileAnImageUnderWayHasClaimedThemAsItsBase) {
  world_.options = {.ranks = 1, .ranks_per_part = 1, .region_bytes = {3000}};
  ASSERT_TRUE(world_.Take(1).ok());
  ASSERT_EQ(world_.Claim(2), world_.At(1));
  const StoredImage base = ReadImage(*world_.catalog, world_.At(1), 0).value();
  EXPECT_EQ(WithdrawVersion(*world_.catalog, world_.At(1)).value(), Removal::kEmptied);
  EXPECT_TRUE(world_.Complete().empty());
  EXPECT_EQ(WithdrawVersion(*world_.catalog, world_.At(1)).value(), Removal::kEmptied) << "again";
  EXPECT_EQ(world_.FilesOf(world_.At(1)), (std::set<std::string>{"data", "removed"}));
  ASSERT_TRUE(testing::TakeOnTop(*world_.catalog, world_.At(2), base).ok());
  EXPECT_EQ(world_.Complete(), std::vector<int64_t>{2});
  EXPECT_TRUE(CheckVersion(*world_.catalog, world_.At(2)).ok());
  ASSERT_TRUE(world_.Withdraw(world_.At(2)).ok());
  world_.Collect();
  for (const int64_t version : {1, 2}) EXPECT_EQ(world_.FilesOf(world_.At(version)), std::set<std::string>{"removed"});
}

// One that nobody goes on with keeps its base until gc takes it.
TEST_F(WithdrawalTest, ObjectsGoWithTheImageUnderWayThatHasClaimedThem) {
  ASSERT_TRUE(world_.Take(1).ok());
  ASSERT_EQ(world_.Claim(2), world_.At(1));
  ASSERT_TRUE(world_.Withdraw(world_.At(1)).ok());
  world_.Collect(1);
  EXPECT_EQ(world_.FilesOf(world_.At(1)), std::set<std::string>{"removed"});
  EXPECT_TRUE(world_.FilesOf(world_.At(2)).empty());
}

TEST_F(WithdrawalTest, OneUnderWayLetsGoOfItsBase) {
  ASSERT_TRUE(world_.Take(1).ok());
  ASSERT_EQ(world_.Claim(2), world_.At(1));
  ASSERT_TRUE(world_.Withdraw(world_.At(2)).ok());
  EXPECT_EQ(world_.FilesOf(world_.At(2)), std::set<std::string>{"removed"});
  ASSERT_EQ(world_.Claim(2), world_.At(1)) << "its agent has not heard of it";
  EXPECT_EQ(WithdrawVersion(*world_.catalog, world_.At(1)).value(), Removal::kRemoved);
  world_.Collect();
  for (const int64_t version : {1, 2}) EXPECT_EQ(world_.FilesOf(world_.At(version)), std::set<std::string>{"removed"});
}

TEST_F(WithdrawalTest, ACopyBringsItBack) {
  world_.options = {.ranks = 1, .ranks_per_part = 1, .region_bytes = {3000}};
  ASSERT_TRUE(world_.Take(1).ok());
  ASSERT_TRUE(testing::TakeOnTop(*world_.catalog, world_.At(2), world_.At(1)).ok());
  const std::unique_ptr<Store> archive = MakePosixStore(fs_, {.path = "/archive"});
  const Catalog there = Catalog::OpenOrCreate(*archive, {"node1", 0, "tool"}).value();
  for (const int64_t version : {1, 2}) ASSERT_TRUE(CopyVersion(*world_.catalog, world_.At(version), there, {}).ok());
  const auto bring_back = [&](int64_t version) {
    Generation generation = world_.At(version);
    generation.store_id = there.id();
    return CopyVersion(there, generation, *world_.catalog, {});
  };
  ASSERT_TRUE(world_.Withdraw(world_.At(1)).ok());
  EXPECT_EQ(bring_back(1).code(), Code::kBusy) << "version 2 needs its objects as they are";
  EXPECT_TRUE(ReadImage(*world_.catalog, world_.At(2), 0).ok());
  ASSERT_TRUE(world_.Withdraw(world_.At(2)).ok());
  world_.Collect();
  for (const int64_t version : {1, 2}) {
    const Status brought = bring_back(version);
    EXPECT_TRUE(brought.ok()) << brought.ToString();
  }
  EXPECT_EQ(world_.Complete(), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(world_.Marks(), 0u);
}

// The newest, then one in the middle, then the last; the remover dies at each of its calls. Each is whole or is no version, gc
// takes what is left of those that are none, and whoever begins again comes to the end.
TEST(WithdrawalCrash, KilledAtEveryCall) {
  SimulatedFileSystem made;
  World maker(made);
  for (const int64_t version : {1, 2, 3}) ASSERT_TRUE(maker.Take(version).ok());
  const auto remove_all = [&](os::FileSystem& fs) {
    World remover(fs);
    for (const int64_t version : {3, 2, 1}) static_cast<void>(remover.Withdraw(maker.At(version)));
  };
  const std::unique_ptr<SimulatedFileSystem> undisturbed = made.Clone();
  remove_all(*undisturbed);
  const uint64_t calls = undisturbed->faults().calls();
  ASSERT_GT(calls, 100u);
  uint64_t cut_short = 0;
  for (uint64_t call = 0; call <= calls; ++call) {
    SCOPED_TRACE("killed at call " + std::to_string(call));
    for (const bool power_is_lost : {false, true}) {
      const std::unique_ptr<SimulatedFileSystem> fs = made.Clone();
      fs->faults().KillAfter(call);
      remove_all(*fs);
      power_is_lost ? fs->Crash(call) : fs->Restart();
      World after(*fs);
      for (const int64_t version : after.Complete()) {
        EXPECT_TRUE(CheckVersion(*after.catalog, after.At(version)).ok()) << "version " << version << " looks complete";
      }
      const size_t left = after.Complete().size();
      cut_short += left > 0 && left < 3 ? 1 : 0;
      after.Collect();
      EXPECT_EQ(after.Complete().size(), left) << "what is whole is no garbage";
      for (const VersionInfo& info : after.All()) {
        if (info.complete) continue;
        EXPECT_EQ(after.FilesOf(info.generation), std::set<std::string>{"removed"}) << info.generation.ToString();
      }
      EXPECT_EQ(after.Withdrawn().size(), 3 - left) << "a restart must know of each";
      EXPECT_TRUE(after.store->ListTemporaries("", after.catalog->owner())->empty());
      for (const int64_t version : after.Complete()) EXPECT_TRUE(after.Withdraw(after.At(version)).ok());
      EXPECT_TRUE(after.Complete().empty());
      EXPECT_EQ(after.Withdrawn().size(), 3u);
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(cut_short, 10u) << "it was never cut short";
}

}  // namespace
}  // namespace kedge
