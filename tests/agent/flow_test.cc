// The ordinary course: capture, flush, levels, restart from the node, retention, back-pressure, idle exit. Real agent, real
// files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include "os/process/process.h"
#include "store/attempts.h"
#include "store/garbage.h"
#include "store/keys.h"
#include "store/posix/posix_store.h"
#include "tests/agent/agent_client.h"

namespace kedge::testing {
namespace {

using std::chrono::seconds;

TEST(AgentFlow, SmallAndLargeImagesReachTheStore) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  int64_t version = 0;
  for (size_t bytes : {size_t{1000}, size_t{300} << 10, size_t{5} << 20}) {
    const Generation generation = client.GenerationOf("ckpt", ++version);
    ASSERT_TRUE(IsOk(client.Capture(generation, bytes)));
    auto local = client.Wait(generation, Level::kLocal);
    ASSERT_TRUE(IsOk(local));
    EXPECT_TRUE(local->failure.ok()) << local->failure.ToString();
    ASSERT_TRUE(IsOk(client.CheckLocal(generation, bytes)));
    auto stored = client.Wait(generation, Level::kStore);
    ASSERT_TRUE(IsOk(stored));
    EXPECT_TRUE(stored->failure.ok()) << stored->failure.ToString();
    EXPECT_EQ(stored->level, Level::kStore);
    ASSERT_TRUE(IsOk(CheckStored(scenario.store(), generation, 0, bytes)));
  }
  EXPECT_TRUE(WaitFor([&] { return client.mailbox().images_done.load() == 3; }, seconds(10)));
  EXPECT_EQ(client.mailbox().images_failed.load(), 0u);
  EXPECT_TRUE(WaitFor(
      [&] {
        return StoredVersions(scenario.store(), "job", "ckpt") == std::vector<int64_t>{2, 3};
      },
      seconds(10)))
      << "keep.versions is 2";
}

TEST(AgentFlow, AVersionIsCompleteWhenAllRanksAre) {
  ScenarioFolder scenario;
  AgentClient first(scenario, {.rank = 0, .ranks = 2});
  AgentClient second(scenario, {.rank = 1, .ranks = 2});
  ASSERT_TRUE(IsOk(first.Attach()));
  ASSERT_TRUE(IsOk(second.Attach()));
  const Generation generation = first.GenerationOf("ckpt", 7);
  ASSERT_TRUE(IsOk(first.Capture(generation, 2 << 20)));
  auto early = first.Wait(generation, Level::kLocal, std::chrono::milliseconds(600));
  ASSERT_TRUE(IsOk(early));
  EXPECT_EQ(early->failure.code(), Code::kTimeout);
  EXPECT_EQ(early->missing_ranks, std::vector<uint32_t>{1});
  EXPECT_NE(early->failure.message().find("rank 1"), std::string::npos) << early->failure.ToString();
  ASSERT_TRUE(IsOk(second.Capture(generation, 1 << 20)));
  auto stored = first.Wait(generation, Level::kStore);
  ASSERT_TRUE(IsOk(stored));
  EXPECT_TRUE(stored->failure.ok()) << stored->failure.ToString();
  ASSERT_TRUE(IsOk(CheckStored(scenario.store(), generation, 0, 2 << 20)));
  ASSERT_TRUE(IsOk(CheckStored(scenario.store(), generation, 1, 1 << 20)));
}

TEST(AgentFlow, MoreThanThePoolHoldsWaitsForFlushes) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {.node_keys = {{"pool.size", "8MiB"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  for (int64_t version = 1; version <= 3; ++version) {
    const Generation generation = client.GenerationOf("ckpt", version);
    ASSERT_TRUE(IsOk(client.Capture(generation, 12 << 20)));
    auto stored = client.Wait(generation, Level::kStore);
    ASSERT_TRUE(IsOk(stored));
    EXPECT_TRUE(stored->failure.ok()) << stored->failure.ToString();
    ASSERT_TRUE(IsOk(CheckStored(scenario.store(), generation, 0, 12 << 20)));
  }
  for (int64_t version = 4; version <= 12; ++version) {
    ASSERT_TRUE(IsOk(client.Capture(client.GenerationOf("ckpt", version), 5 << 20)));
  }
  ASSERT_TRUE(IsOk(client.Wait(client.GenerationOf("ckpt", 12), Level::kStore)));
  EXPECT_EQ(client.chunks_through(), 0u) << "a flushed chunk makes room, also before its image ends";
}

// The application has ended, and its lease is long over, when somebody tidies up.
TEST(AgentFlow, GarbageCollectionLeavesAloneWhatTheAgentStillWrites) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {.node_keys = {{"flush.rate", "1MiB"}}});
  PosixStoreOptions options;
  options.path = scenario.store();
  const auto store = MakePosixStore(os::SystemFileSystem(), options);
  const Catalog catalog = Catalog::Open(*store, {"test", 0, "gc"}).value();
  LeaseWatch watch;
  ASSERT_TRUE(IsOk(AcquireAttempt(catalog, RequestOfThisProcess("job", /*lease_seconds=*/2, /*ranks=*/1), &watch)));
  ASSERT_TRUE(IsOk(client.Attach()));
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 12 << 20)));
  ASSERT_TRUE(IsOk(client.Goodbye()));
  ASSERT_TRUE(IsOk(EndAttempt(catalog, "job", 1)));
  for (int round = 0; round < 4; ++round) {
    std::this_thread::sleep_for(seconds(1));
    const auto report = CollectGarbage(catalog, {});
    ASSERT_TRUE(IsOk(report));
    for (const GarbageItem& item : report->items) ADD_FAILURE() << "removed: " << item.what << ", " << item.why;
  }
  ASSERT_TRUE(StoredVersions(scenario.store(), "job", "ckpt").empty()) << "this test shows nothing";
  EXPECT_TRUE(WaitFor([&] { return IsOk(CheckStored(scenario.store(), generation, 0, 12 << 20)); }, seconds(30)));
}

// What the agent has just begun is left alone, too: not only from its next look after the attempt on.
TEST(AgentFlow, GarbageCollectionLeavesAloneWhatTheAgentHasJustBegun) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {.node_keys = {{"flush.rate", "1MiB"}}});
  const auto store = MakePosixStore(os::SystemFileSystem(), {.path = scenario.store()});
  const Catalog catalog = Catalog::Open(*store, {"test", 0, "gc"}).value();
  LeaseWatch watch;
  ASSERT_TRUE(IsOk(AcquireAttempt(catalog, RequestOfThisProcess("job", /*lease_seconds=*/60, /*ranks=*/1), &watch)));
  ASSERT_TRUE(IsOk(client.Attach()));
  std::this_thread::sleep_for(seconds(2));  // the agent has looked after the attempt, and will not for a while
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 4 << 20)));
  ASSERT_TRUE(IsOk(client.Goodbye()));
  const auto temporaries = [&] {
    size_t found = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(scenario.store()))
      found += entry.path().extension() == ".tmp" && entry.path().parent_path().filename() == "data" ? 1 : 0;
    return found;
  };
  ASSERT_TRUE(WaitFor([&] { return temporaries() > 0; }, seconds(10)));
  ASSERT_TRUE(IsOk(EndAttempt(catalog, "job", 1)));
  GarbageOptions at_once;
  at_once.patience = Duration{};
  const auto report = CollectGarbage(catalog, at_once);
  ASSERT_TRUE(IsOk(report));
  for (const GarbageItem& item : report->items) ADD_FAILURE() << "removed: " << item.what << ", " << item.why;
  ASSERT_TRUE(StoredVersions(scenario.store(), "job", "ckpt").empty()) << "this test shows nothing";
  EXPECT_TRUE(WaitFor([&] { return IsOk(CheckStored(scenario.store(), generation, 0, 4 << 20)); }, seconds(30)));
}

// Who asks whether something is in the store makes the agent look after the attempt, too: the sign of life is given all the same.
TEST(AgentFlow, GarbageCollectionLeavesAloneWhatTheAgentStillWritesAlsoWhileSomebodyAsks) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {.node_keys = {{"flush.rate", "1MiB"}}});
  const auto store = MakePosixStore(os::SystemFileSystem(), {.path = scenario.store()});
  const Catalog catalog = Catalog::Open(*store, {"test", 0, "gc"}).value();
  LeaseWatch watch;
  ASSERT_TRUE(IsOk(AcquireAttempt(catalog, RequestOfThisProcess("job", /*lease_seconds=*/8, /*ranks=*/1), &watch)));
  ASSERT_TRUE(IsOk(client.Attach()));
  const Generation stored = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(stored, 1000)));
  ASSERT_EQ(client.Wait(stored, Level::kStore)->level, Level::kStore);
  const Generation carried = client.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(client.Capture(carried, 12 << 20)));
  const std::filesystem::path mark = std::filesystem::path(scenario.store()) / keys::AttemptDrainKey("job", 1);
  std::set<std::filesystem::file_time_type> given;
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));  // before, when it looked last does not count any more
    ASSERT_EQ(client.Wait(stored, Level::kStore)->level, Level::kStore);
    std::error_code absent;
    if (const auto at = std::filesystem::last_write_time(mark, absent); !absent) given.insert(at);
  }
  ASSERT_FALSE(IsOk(CheckStored(scenario.store(), carried, 0, 12 << 20))) << "this test shows nothing";
  EXPECT_GE(given.size(), 3u) << "one every two seconds, a quarter of the lease";
  EXPECT_TRUE(WaitFor([&] { return IsOk(CheckStored(scenario.store(), carried, 0, 12 << 20)); }, seconds(30)));
}

TEST(AgentFlow, DirectoryTierTakesWhatThePoolCannot) {
  ScenarioFolder scenario;
  const std::string tier = "[{name=\"disk\", path='" + scenario.path() + "/disk', capacity=\"64MiB\"}]";
  AgentClient client(scenario, {.node_keys = {{"pool.size", "4MiB"}, {"tier", tier}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  ASSERT_EQ(client.attachment().welcome.tiers.size(), 2u);
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 20 << 20)));
  EXPECT_EQ(client.chunks_through(), 0u);
  ASSERT_TRUE(IsOk(client.Wait(generation, Level::kStore)));
  ASSERT_TRUE(IsOk(CheckStored(scenario.store(), generation, 0, 20 << 20)));
  ASSERT_TRUE(IsOk(client.CheckLocal(generation, 20 << 20)));
}

TEST(AgentFlow, OnlyEveryNthVersionGoesToTheStore) {
  ScenarioFolder scenario;
  ClientOptions options;
  options.keys.schedule_store = 2;
  AgentClient client(scenario, options);
  ASSERT_TRUE(IsOk(client.Attach()));
  for (int64_t version = 1; version <= 4; ++version) {
    ASSERT_TRUE(IsOk(client.Capture(client.GenerationOf("ckpt", version), 1000)));
    auto reached = client.Wait(client.GenerationOf("ckpt", version), Level::kLast);
    ASSERT_TRUE(IsOk(reached));
    EXPECT_TRUE(reached->failure.ok()) << reached->failure.ToString();
    EXPECT_EQ(reached->level, version % 2 == 1 ? Level::kStore : Level::kLocal) << version;
  }
  auto refused = client.Wait(client.GenerationOf("ckpt", 4), Level::kStore);
  ASSERT_TRUE(IsOk(refused));
  EXPECT_EQ(refused->failure.code(), Code::kFailedPrecondition) << refused->failure.ToString();
  ASSERT_TRUE(IsOk(client.CheckLocal(client.GenerationOf("ckpt", 4), 1000))) << "the newest is on the node only, and stays";
}

TEST(AgentFlow, QueuedVersionsAreSkippedWhenAskedAndCounted) {
  for (bool skip : {false, true}) {
    ScenarioFolder scenario;
    ClientOptions options{.node_keys = {{"flush.rate", "4MiB"}, {"flush.workers", "1"}}};
    options.keys.skip_queued = skip;
    options.keys.keep_versions = options.keys.keep_local = 10;
    AgentClient client(scenario, options);
    ASSERT_TRUE(IsOk(client.Attach()));
    for (int64_t version = 1; version <= 5; ++version) {
      ASSERT_TRUE(IsOk(client.Capture(client.GenerationOf("ckpt", version), 900000)));
      if (version > 1) continue;
      const std::filesystem::path begun = scenario.store() + "/jobs/job/names/ckpt/1-1-1/data";
      EXPECT_TRUE(WaitFor([&] { return std::filesystem::exists(begun) && !std::filesystem::is_empty(begun); }, seconds(20)));
    }
    auto newest = client.Wait(client.GenerationOf("ckpt", 5), Level::kStore);
    ASSERT_TRUE(IsOk(newest));
    EXPECT_TRUE(IsOk(newest->failure));
    EXPECT_TRUE(skip || WaitFor([&] { return StoredVersions(scenario.store(), "job", "ckpt").size() == 5; }, seconds(10)));
    const auto stored = StoredVersions(scenario.store(), "job", "ckpt");
    const std::string counted = client.AgentStatus().value();
    EXPECT_EQ(counted.find("\"versions_skipped\":0") == std::string::npos, skip) << counted;
    EXPECT_EQ(stored.size() < 5, skip);
    EXPECT_EQ(stored.front(), 1) << "one whose flush is under way is finished";
    EXPECT_EQ(stored.back(), 5);
    for (int64_t version : stored)
      EXPECT_TRUE(IsOk(CheckStored(scenario.store(), client.GenerationOf("ckpt", version), 0, 900000)));
    if (!skip) continue;
    // What was skipped is not waited for in vain.
    for (int64_t version = 2; version < 5; ++version) {
      if (std::find(stored.begin(), stored.end(), version) != stored.end()) continue;
      auto skipped = client.Wait(client.GenerationOf("ckpt", version), Level::kStore);
      ASSERT_TRUE(IsOk(skipped));
      EXPECT_EQ(skipped->failure.code(), Code::kFailedPrecondition) << skipped->failure.ToString();
    }
  }
}

TEST(AgentFlow, IdleExitLeavesNothing) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {.node_keys = {{"agent.idle_timeout", "1s"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  const int agent = scenario.AgentPid();
  ASSERT_NE(agent, 0);
  ASSERT_TRUE(IsOk(client.Capture(client.GenerationOf("ckpt", 1), 3 << 20)));
  ASSERT_TRUE(IsOk(client.Goodbye()));
  client.Disconnect();
  EXPECT_TRUE(WaitFor([&] { return !std::filesystem::exists(scenario.run_folder()); }, seconds(20)));
  EXPECT_EQ(StoredVersions(scenario.store(), "job", "ckpt"), std::vector<int64_t>{1}) << "it flushed before it left";
}

TEST(AgentFlow, IdleExitKeepsTheOnlyCopy) {
  ScenarioFolder scenario;
  ClientOptions options{.node_keys = {{"agent.idle_timeout", "1s"}}};
  options.keys.schedule_store = 0;
  AgentClient client(scenario, options);
  ASSERT_TRUE(IsOk(client.Attach()));
  const auto agent = os::IdentityOf(scenario.AgentPid());
  ASSERT_TRUE(IsOk(agent));
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 3 << 20)));
  ASSERT_TRUE(IsOk(client.Goodbye()));
  client.Disconnect();
  // Whether it lives is not asked through its socket: whoever connects keeps it from being idle.
  EXPECT_TRUE(WaitFor([&] { return !os::IsAlive(*agent); }, seconds(20)));
  AgentClient next(scenario, options);
  ASSERT_TRUE(IsOk(next.Attach()));
  ASSERT_TRUE(IsOk(next.CheckLocal(generation, 3 << 20)));
}

TEST(AgentFlow, NodeKeysThatDifferAreRefusedByName) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  AgentClient other(scenario, {.job = "other", .node_keys = {{"pool.size", "32MiB"}}});
  const Status refused = other.Attach();
  EXPECT_EQ(refused.code(), Code::kMismatch);
  EXPECT_NE(refused.message().find("pool.size"), std::string::npos) << refused.ToString();
  EXPECT_NE(refused.message().find("32MiB"), std::string::npos) << refused.ToString();
  EXPECT_NE(refused.message().find("16MiB"), std::string::npos) << refused.ToString();
}

TEST(AgentFlow, SeveralJobsStoresAndScratches) {
  ScenarioFolder scenario;
  ClientOptions one, two;
  two.keys.store_path = scenario.path() + "/another-store";
  two.keys.scratch = scenario.run_folder() + "-scratch";
  AgentClient first(scenario, one), second(scenario, two);
  ASSERT_TRUE(IsOk(first.Attach()));
  ASSERT_TRUE(IsOk(second.Attach()));
  EXPECT_NE(first.attachment().welcome.tiers[0].path, second.attachment().welcome.tiers[0].path);
  EXPECT_TRUE(second.attachment().welcome.tiers[0].path.starts_with(two.keys.scratch));
  // The same job name, checkpoint name and version in two stores: never mixed.
  ASSERT_TRUE(IsOk(first.Capture(first.GenerationOf("ckpt", 1), 2 << 20)));
  ASSERT_TRUE(IsOk(second.Capture(second.GenerationOf("ckpt", 1), 1 << 20)));
  ASSERT_TRUE(IsOk(first.Wait(first.GenerationOf("ckpt", 1), Level::kStore)));
  ASSERT_TRUE(IsOk(second.Wait(second.GenerationOf("ckpt", 1), Level::kStore)));
  ASSERT_TRUE(IsOk(CheckStored(scenario.store(), first.GenerationOf("ckpt", 1), 0, 2 << 20)));
  ASSERT_TRUE(IsOk(CheckStored(two.keys.store_path, second.GenerationOf("ckpt", 1), 0, 1 << 20)));
  std::filesystem::remove_all(two.keys.scratch);
}

}  // namespace
}  // namespace kedge::testing
