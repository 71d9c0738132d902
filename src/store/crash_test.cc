// Thousands of lives and deaths of a run on a simulated file system: killed at every call, with and without a power
// loss that drops what was not synced; every kind of error at every call. After each: what was promised holds
// (testing/promise_ledger.h), the next run takes over and takes versions again, and gc leaves nothing behind.
//
// The promises are checked after every schedule; a whole new run after every tenth, or after all when KEDGE_TEST_LONG
// is set, which also brings more seeds. A failure names the call number and the seed, which replay it.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/random.h"
#include "os/testing/interposed_file_system.h"
#include "os/testing/simulated_file_system.h"
#include "store/attempts.h"
#include "store/garbage.h"
#include "store/posix/posix_store.h"
#include "store/testing/promise_ledger.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge {
namespace {

using os::testing::Call;
using os::testing::CallsOf;
using os::testing::FaultRule;
using os::testing::SimulatedFileSystem;
using testing::Ledger;
using testing::MakerOptions;

const MakerOptions kImages{
    .ranks = 2, .ranks_per_part = 1, .region_bytes = {1300, 0, 77}, .chunk_bytes = 1024, .piece_bytes = 500};
// Every second version is of one part, which stands inside its version record.
MakerOptions ImagesOf(int64_t version) {
  MakerOptions images = kImages;
  if (version % 2 != 0) images.ranks_per_part = images.ranks;
  return images;
}
constexpr uint32_t kKeep = 1;
constexpr char kRoot[] = "/store";

bool IsLong() {
  return std::getenv("KEDGE_TEST_LONG") != nullptr;
}

// One launch of the job, from init to the end of the attempt. With `persist` it goes on after errors, as a runtime
// does: what failed is taken again. Otherwise the first error ends it, as a kill does.
class JobRun {
 public:
  JobRun(os::FileSystem& fs, Ledger& ledger, bool persist)
      : store_(MakePosixStore(fs, {.path = kRoot})), ledger_(ledger), persist_(persist) {}

  Status Live(int64_t first_version);

 private:
  Status Start();
  Status Take(const std::string& name, int64_t version);
  Status TakeOnTop(const std::string& name, int64_t version, int64_t base);
  Status Pin(int64_t version);
  Status Retain(const std::string& name);
  // With persist: notes the error, tries up to three times, and goes on.
  template <typename Step>
  Status Try(Step step);
  Generation At(const std::string& name, int64_t version) { return {catalog_->id(), "job", name, version, attempt_, ++takes_}; }

  std::unique_ptr<Store> store_;
  Ledger& ledger_;
  const bool persist_;
  std::optional<Catalog> catalog_;
  uint32_t attempt_ = 0;
  uint32_t takes_ = 0;
  std::map<int64_t, Generation> newest_;  // of "grid"
};

template <typename Step>
Status JobRun::Try(Step step) {
  Status status = step();
  for (int again = 0; persist_ && !status.ok() && again < 3; ++again) status = step();
  return persist_ ? Status::Ok() : status;
}

Status JobRun::Start() {
  KEDGE_ASSIGN_OR_RETURN(const Catalog opened, Catalog::OpenOrCreate(*store_, {"node1", 0, "r0"}));
  AttemptRequest request = RequestOfThisProcess("job", 60, kImages.ranks);
  request.is_alive = [](int64_t, uint64_t) { return false; };  // of the runs before
  LeaseWatch watch;
  KEDGE_ASSIGN_OR_RETURN(const AttemptRecord record, AcquireAttempt(opened, request, &watch));
  attempt_ = record.attempt;
  catalog_ = opened.WithOwner({"node1", attempt_, "agent"});
  return Status::Ok();
}

Status JobRun::Take(const std::string& name, int64_t version) {
  const Generation generation = At(name, version);
  KEDGE_RETURN_IF_ERROR(testing::TakeVersion(*catalog_, generation, ImagesOf(version)));
  ledger_.Acknowledge(generation);
  if (name == "grid") newest_[version] = generation;
  return Status::Ok();
}

Status JobRun::TakeOnTop(const std::string& name, int64_t version, int64_t base) {
  const Generation generation = At(name, version);
  const auto below = newest_.find(base);
  if (below == newest_.end()) return Status(Code::kNotFound, "its base was not taken");
  KEDGE_RETURN_IF_ERROR(testing::TakeOnTop(*catalog_, generation, below->second));
  ledger_.Acknowledge(generation);
  return Status::Ok();
}

Status JobRun::Pin(int64_t version) {
  const auto pinned = newest_.find(version);
  if (pinned == newest_.end()) return Status(Code::kNotFound, "it was not taken");
  KEDGE_RETURN_IF_ERROR(PinVersion(*catalog_, pinned->second));
  ledger_.Pin(pinned->second);
  return Status::Ok();
}

Status JobRun::Retain(const std::string& name) {
  ledger_.AllowRemoval(name, kKeep);
  return ApplyRetention(*catalog_, "job", name, {kKeep, {}}, nullptr);
}

Status JobRun::Live(int64_t first) {
  KEDGE_RETURN_IF_ERROR(Try([&] { return Start(); }));
  if (attempt_ == 0) return Status(Code::kUnavailable, "it never started");
  KEDGE_RETURN_IF_ERROR(Try([&] { return Take("grid", first); }));
  KEDGE_RETURN_IF_ERROR(Try([&] { return Pin(first); }));
  KEDGE_RETURN_IF_ERROR(Try([&] { return Take("grid", first + 1); }));
  KEDGE_RETURN_IF_ERROR(Try([&] { return Retain("grid"); }));
  KEDGE_RETURN_IF_ERROR(Try([&] { return Take("other", first); }));
  KEDGE_RETURN_IF_ERROR(Try([&] { return Take("grid", first + 1); }));  // retaken
  KEDGE_RETURN_IF_ERROR(Try([&] { return RenewAttempt(*catalog_, "job", attempt_); }));
  KEDGE_RETURN_IF_ERROR(Try([&] { return Retain("grid"); }));
  KEDGE_RETURN_IF_ERROR(Try([&] { return TakeOnTop("grid", first + 2, first + 1); }));
  KEDGE_RETURN_IF_ERROR(Try([&] { return Retain("grid"); }));  // empties first + 1
  KEDGE_RETURN_IF_ERROR(Try([&] { return Take("grid", first + 3); }));
  KEDGE_RETURN_IF_ERROR(Try([&] { return Retain("grid"); }));  // removes first + 2, and then what it stood on
  KEDGE_RETURN_IF_ERROR(Try([&] { return CollectGarbage(*catalog_, {}).status(); }));
  return Try([&] { return EndAttempt(*catalog_, "job", attempt_); });
}

// Opens the store as a restart does and holds it against the ledger. A store that never came to be keeps an empty one.
Status CheckStore(os::FileSystem& fs, const Ledger& ledger) {
  const std::unique_ptr<Store> store = MakePosixStore(fs, {.path = kRoot});
  const Result<Catalog> catalog = Catalog::Open(*store, {"reader", 0, "reader"});
  if (catalog.status().code() == Code::kNotFound && ledger.GreatestVersion() < 0) return Status::Ok();
  if (!catalog.ok()) return catalog.status().WithContext("the store does not open");
  return ledger.Check(*catalog);
}

// Makes every attempt silent and collects: then only complete versions are there.
Status CheckNothingIsLeft(SimulatedFileSystem& fs, Ledger& ledger) {
  const std::unique_ptr<Store> store = MakePosixStore(fs, {.path = kRoot});
  KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Open(*store, {"login", 0, "gc"}));
  const std::string attempts = std::string(kRoot) + '/' + keys::AttemptsFolder("job");
  KEDGE_ASSIGN_OR_RETURN(const auto entries, fs.List(attempts));
  for (const auto& entry : entries) {
    KEDGE_RETURN_IF_ERROR(fs.SetModifiedTime(attempts + '/' + entry.name, -1'000'000'000'000));
  }
  GarbageOptions options;
  options.incomplete_age_seconds = 0;
  options.orphan_age_seconds = -1;
  // Finishes what was whole but lacked its last record; then retention sees those too, and the rest is garbage.
  KEDGE_RETURN_IF_ERROR(CollectGarbage(catalog, options).status());
  for (const char* name : {"grid", "other"}) {
    ledger.AllowRemoval(name, kKeep);
    KEDGE_RETURN_IF_ERROR(ApplyRetention(catalog, "job", name, {kKeep, {}}, nullptr));
  }
  KEDGE_ASSIGN_OR_RETURN(const GarbageReport report, CollectGarbage(catalog, options));
  if (!report.problems.empty()) return Status(Code::kInternal, "gc: " + report.problems.front());
  KEDGE_ASSIGN_OR_RETURN(const std::vector<Temporary> temporaries, store->ListTemporaries("", {"login", 0, "gc"}));
  if (!temporaries.empty()) return Status(Code::kInternal, "gc left " + temporaries.front().handle);
  for (const char* name : {"grid", "other"}) {
    KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, "job", name));
    for (const VersionInfo& info : versions) {
      if (!info.complete) return Status(Code::kInternal, "gc left " + info.generation.ToString() + ": " + info.reason);
    }
  }
  return Status::Ok();
}

// After whatever happened: the promises hold, a new run works, and still hold; and nothing is left lying about.
Status Recover(SimulatedFileSystem& fs, Ledger ledger) {
  KEDGE_RETURN_IF_ERROR(CheckStore(fs, ledger));
  KEDGE_RETURN_IF_ERROR(JobRun(fs, ledger, false).Live(ledger.GreatestVersion() + 10).WithContext("the next run"));
  KEDGE_RETURN_IF_ERROR(CheckStore(fs, ledger));
  KEDGE_RETURN_IF_ERROR(CheckNothingIsLeft(fs, ledger));
  return CheckStore(fs, ledger);
}

// Recover for every tenth schedule, the promises alone for the others.
Status CheckOrRecover(SimulatedFileSystem& fs, const Ledger& ledger, uint64_t schedule) {
  return IsLong() || schedule % 10 == 0 ? Recover(fs, ledger) : CheckStore(fs, ledger);
}

uint64_t CallsOfOneRun() {
  SimulatedFileSystem fs;
  Ledger ledger;
  EXPECT_TRUE(JobRun(fs, ledger, false).Live(1).ok());
  return fs.faults().calls();
}

// Counts schedules and says at the end how fast they went.
class Pace {
 public:
  explicit Pace(const char* what) : what_(what) {}
  ~Pace() {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    std::printf("%s: %lu schedules, %.0f a second\n", what_, schedules_, static_cast<double>(schedules_) / seconds);
  }
  void Count() { ++schedules_; }

 private:
  const char* const what_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  unsigned long schedules_ = 0;
};

TEST(Crash, AnUndisturbedRunKeepsItsPromises) {
  SimulatedFileSystem fs;
  Ledger ledger;
  const Status lived = JobRun(fs, ledger, false).Live(1);
  ASSERT_TRUE(lived.ok()) << lived.ToString();
  const Status recovered = Recover(fs, ledger);
  EXPECT_TRUE(recovered.ok()) << recovered.ToString();
}

TEST(Crash, KilledAtEveryCall) {
  Pace pace("killed at every call");
  const uint64_t calls = CallsOfOneRun();
  ASSERT_GT(calls, 500u);
  for (uint64_t call = 0; call <= calls; ++call) {
    SimulatedFileSystem fs({.seed = call});
    Ledger ledger;
    fs.faults().KillAfter(call);
    const Status lived = JobRun(fs, ledger, false).Live(1);
    fs.Restart();
    const Status recovered = CheckOrRecover(fs, ledger, call);
    pace.Count();
    ASSERT_TRUE(recovered.ok()) << "killed at call " << call << " (" << lived.ToString() << "): " << recovered.ToString();
  }
}

TEST(Crash, PowerLostAtEveryCall) {
  Pace pace("power lost at every call");
  const uint64_t calls = CallsOfOneRun();
  const uint64_t seeds = IsLong() ? 60 : 3;
  for (uint64_t call = 0; call <= calls; ++call) {
    SimulatedFileSystem fs({.seed = call});
    Ledger ledger;
    fs.faults().KillAfter(call);
    const Status lived = JobRun(fs, ledger, false).Live(1);
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      const std::unique_ptr<SimulatedFileSystem> crashed = fs.Clone();
      crashed->Crash(MixSeed(call, seed));
      const Status recovered = CheckOrRecover(*crashed, ledger, call + seed);
      pace.Count();
      ASSERT_TRUE(recovered.ok()) << "killed at call " << call << " (" << lived.ToString() << "), crash seed " << seed << ": "
                                  << recovered.ToString();
    }
  }
}

// Several lives in a row, each cut short at a random call, some by a power loss.
TEST(Crash, DeathAfterDeath) {
  Pace pace("death after death");
  const uint64_t calls = CallsOfOneRun();
  const uint64_t seeds = IsLong() ? 20000 : 100;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    SimulatedFileSystem fs({.seed = seed});
    Ledger ledger;
    for (int life = 0; life < 4; ++life) {
      fs.faults().KillAfter(random.Below(calls));
      if (random.Chance(0.3)) fs.faults().ShortTransfers(0.3, seed);
      static_cast<void>(JobRun(fs, ledger, false).Live(ledger.GreatestVersion() + 10));
      if (random.Chance(0.5)) {
        fs.Crash(random.Next());
      } else {
        fs.Restart();
      }
      const Status kept = CheckStore(fs, ledger);
      ASSERT_TRUE(kept.ok()) << "life " << life << ": " << kept.ToString();
    }
    const Status recovered = Recover(fs, ledger);
    pace.Count();
    ASSERT_TRUE(recovered.ok()) << recovered.ToString();
  }
}

// `count` calls of one kind fail, from the `skip`-th on; the run goes on as well as it can. Then, perhaps, the power
// goes.
void FailAtEveryCall(const char* what, FaultRule rule, uint64_t step) {
  Pace pace(what);
  uint64_t total = 0;
  for (uint64_t skip = 0;; skip += step) {
    SimulatedFileSystem fs({.seed = skip});
    Ledger ledger;
    rule.skip = skip;
    fs.faults().Add(rule);
    static_cast<void>(JobRun(fs, ledger, true).Live(1));
    if (fs.faults().faults() == 0) break;  // beyond the last
    ++total;
    fs.faults().Clear();
    // As a power loss; then as the process sees it, and by that same process's successor.
    const std::unique_ptr<SimulatedFileSystem> crashed = fs.Clone();
    crashed->Crash(skip);
    for (SimulatedFileSystem* after : {crashed.get(), &fs}) {
      const Status recovered = CheckOrRecover(*after, ledger, skip);
      pace.Count();
      ASSERT_TRUE(recovered.ok()) << what << " from call " << skip << (after == &fs ? "" : ", then power loss") << ": "
                                  << recovered.ToString();
    }
  }
  EXPECT_GT(total, 5u) << "the fault was hardly ever met";
}

TEST(Faults, NoSpaceAtEveryWrite) {
  for (const uint64_t count : {uint64_t{1}, uint64_t{3}, uint64_t{40}}) {
    FaultRule rule;
    rule.calls = CallsOf(Call::kPwrite, Call::kOpen, Call::kMkdir, Call::kLink, Call::kRename);
    rule.count = count;
    rule.errno_value = count == 3 ? EDQUOT : ENOSPC;
    FailAtEveryCall("no space", rule, IsLong() || count == 1 ? 1 : 5);
  }
}

TEST(Faults, IoErrorAtEveryCall) {
  FaultRule rule;
  rule.errno_value = EIO;
  FailAtEveryCall("EIO", rule, IsLong() ? 1 : 3);
}

TEST(Faults, EveryFsyncFails) {
  for (const uint64_t count : {1, 2, 10}) {
    FaultRule rule;
    rule.calls = CallsOf(Call::kFsync, Call::kFdatasync, Call::kSyncFileRange);
    rule.count = count;
    rule.errno_value = EIO;
    FailAtEveryCall("fsync", rule, 1);
  }
}

TEST(Faults, EveryCloseFails) {
  FaultRule rule;
  rule.calls = CallsOf(Call::kClose);
  rule.errno_value = EDQUOT;
  FailAtEveryCall("close", rule, 1);
}

TEST(Faults, ReadOnlyForAWhile) {
  SimulatedFileSystem fs;
  Ledger ledger;
  ASSERT_TRUE(JobRun(fs, ledger, false).Live(1).ok());
  fs.SetReadOnly(true);
  const Status refused = JobRun(fs, ledger, false).Live(100);
  EXPECT_EQ(refused.code(), Code::kPermission) << refused.ToString();
  EXPECT_EQ(refused.errno_value(), EROFS);
  EXPECT_NE(refused.message().find(kRoot), std::string::npos) << refused.message();
  EXPECT_TRUE(CheckStore(fs, ledger).ok());
  fs.SetReadOnly(false);
  const Status recovered = Recover(fs, ledger);
  EXPECT_TRUE(recovered.ok()) << recovered.ToString();
}

// The capacity itself, not an injected error: however little room there is, nothing is lost, and all is well once there
// is more.
TEST(Faults, EveryCapacity) {
  SimulatedFileSystem roomy;
  Ledger unlimited;
  ASSERT_TRUE(JobRun(roomy, unlimited, false).Live(1).ok());
  const uint64_t enough = roomy.UsedBytes() * 3;
  for (uint64_t capacity = 4096; capacity < enough; capacity += 4096) {
    SimulatedFileSystem fs({.seed = capacity, .capacity_bytes = capacity});
    Ledger ledger;
    static_cast<void>(JobRun(fs, ledger, true).Live(1));
    fs.SetCapacity(uint64_t{1} << 40);
    const Status recovered = Recover(fs, ledger);
    ASSERT_TRUE(recovered.ok()) << "capacity " << capacity << ": " << recovered.ToString();
  }
}

// The tests above must be able to fail: what they protect is taken away behind the file system, and they must notice.
bool IsNoticed(bool (*forgotten)(Call, const std::string&)) {
  const uint64_t calls = CallsOfOneRun();
  for (uint64_t call = calls; call > 0; --call) {
    SimulatedFileSystem fs({.seed = call});
    os::testing::InterposedFileSystem forgetful(fs, [forgotten](Call one, const std::string& path) {
      return forgotten(one, path) ? os::testing::Interposition::kPretend : os::testing::Interposition::kPass;
    });
    Ledger ledger;
    fs.faults().KillAfter(call);
    static_cast<void>(JobRun(forgetful, ledger, false).Live(1));
    fs.Crash(call);
    if (!CheckStore(fs, ledger).ok()) return true;
  }
  return false;
}

bool IsSyncOf(Call call, const std::string& path, std::string_view ending) {
  return call == Call::kFsync && path.ends_with(ending);
}

TEST(Crash, ForgottenSyncsAreNoticed) {
  EXPECT_FALSE(IsNoticed([](Call, const std::string&) { return false; }));
  EXPECT_TRUE(IsNoticed([](Call call, const std::string&) { return call == Call::kFsync; })) << "all";
  // Files have their temporary names when they are synced.
  EXPECT_TRUE(IsNoticed([](Call call, const std::string& path) { return IsSyncOf(call, path, ".tmp"); })) << "files";
  EXPECT_TRUE(IsNoticed([](Call call, const std::string& path) { return IsSyncOf(call, path, "/data"); })) << "objects";
  EXPECT_TRUE(IsNoticed([](Call call, const std::string& path) { return IsSyncOf(call, path, "/parts"); })) << "parts";
  EXPECT_TRUE(IsNoticed([](Call call, const std::string& path) { return IsSyncOf(call, path, "/1-1-1"); })) << "version records";
  EXPECT_TRUE(IsNoticed([](Call call, const std::string& path) { return IsSyncOf(call, path, "/grid"); })) << "versions";
  EXPECT_TRUE(IsNoticed([](Call call, const std::string& path) { return IsSyncOf(call, path, "/names"); })) << "names";
  EXPECT_TRUE(IsNoticed([](Call call, const std::string& path) { return IsSyncOf(call, path, kRoot); })) << "the root";
}

}  // namespace
}  // namespace kedge
