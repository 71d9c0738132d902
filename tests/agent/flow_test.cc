// The ordinary course: capture, flush, levels, restart from the node, retention, back-pressure, idle exit. Real agent, real
// files.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "tests/agent/agent_client.h"

namespace kedge::testing {
namespace {

using std::chrono::seconds;

#define ASSERT_OK(expression)                              \
  do {                                                     \
    const auto& ok_result = (expression);                  \
    ASSERT_TRUE(ok_result.ok()) << StatusOf(ok_result);    \
  } while (0)

std::string StatusOf(const Status& status) { return status.ToString(); }
template <typename T>
std::string StatusOf(const Result<T>& result) { return result.status().ToString(); }

bool WaitFor(const std::function<bool()>& condition, Duration timeout) {
  const Deadline deadline(SystemClock(), timeout);
  while (!condition()) {
    if (deadline.Passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

TEST(AgentFlow, SmallAndLargeImagesReachTheStore) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {});
  ASSERT_OK(client.Attach());
  int64_t version = 0;
  for (size_t bytes : {size_t{1000}, size_t{300} << 10, size_t{5} << 20}) {
    const Generation generation = client.GenerationOf("ckpt", ++version);
    ASSERT_OK(client.Capture(generation, bytes));
    auto local = client.Wait(generation, Level::kLocal);
    ASSERT_OK(local);
    EXPECT_TRUE(local->failure.ok()) << local->failure.ToString();
    ASSERT_OK(client.CheckLocal(generation, bytes));
    auto stored = client.Wait(generation, Level::kStore);
    ASSERT_OK(stored);
    EXPECT_TRUE(stored->failure.ok()) << stored->failure.ToString();
    EXPECT_EQ(stored->level, Level::kStore);
    ASSERT_OK(CheckStored(scenario.store(), generation, 0, bytes));
  }
  EXPECT_TRUE(WaitFor([&] { return client.mailbox().images_done.load() == 3; }, seconds(10)));
  EXPECT_EQ(client.mailbox().images_failed.load(), 0u);
  EXPECT_TRUE(WaitFor([&] { return StoredVersions(scenario.store(), "job", "ckpt") == std::vector<int64_t>{2, 3}; }, seconds(10)))
      << "keep.versions is 2";
}

TEST(AgentFlow, AVersionIsCompleteWhenAllRanksAre) {
  ScenarioFolder scenario;
  AgentClient first(scenario, {.rank = 0, .ranks = 2});
  AgentClient second(scenario, {.rank = 1, .ranks = 2});
  ASSERT_OK(first.Attach());
  ASSERT_OK(second.Attach());
  const Generation generation = first.GenerationOf("ckpt", 7);
  ASSERT_OK(first.Capture(generation, 2 << 20));
  auto early = first.Wait(generation, Level::kLocal, std::chrono::milliseconds(600));
  ASSERT_OK(early);
  EXPECT_EQ(early->failure.code(), Code::kTimeout);
  EXPECT_EQ(early->missing_ranks, std::vector<uint32_t>{1});
  EXPECT_NE(early->failure.message().find("rank 1"), std::string::npos) << early->failure.ToString();
  ASSERT_OK(second.Capture(generation, 1 << 20));
  auto stored = first.Wait(generation, Level::kStore);
  ASSERT_OK(stored);
  EXPECT_TRUE(stored->failure.ok()) << stored->failure.ToString();
  ASSERT_OK(CheckStored(scenario.store(), generation, 0, 2 << 20));
  ASSERT_OK(CheckStored(scenario.store(), generation, 1, 1 << 20));
}

TEST(AgentFlow, MoreThanThePoolHoldsGoesThroughOrWaits) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {.node_keys = {{"pool.size", "8MiB"}}});
  ASSERT_OK(client.Attach());
  for (int64_t version = 1; version <= 3; ++version) {
    const Generation generation = client.GenerationOf("ckpt", version);
    ASSERT_OK(client.Capture(generation, 12 << 20));
    auto stored = client.Wait(generation, Level::kStore);
    ASSERT_OK(stored);
    EXPECT_TRUE(stored->failure.ok()) << stored->failure.ToString();
    ASSERT_OK(CheckStored(scenario.store(), generation, 0, 12 << 20));
  }
  EXPECT_GT(client.chunks_through(), 0u);
  // And what fits does so without.
  const uint64_t before = client.chunks_through();
  for (int64_t version = 4; version <= 12; ++version) {
    ASSERT_OK(client.Capture(client.GenerationOf("ckpt", version), 5 << 20));
  }
  ASSERT_OK(client.Wait(client.GenerationOf("ckpt", 12), Level::kStore));
  EXPECT_EQ(client.chunks_through(), before) << "it waits for flushes that free room";
}

TEST(AgentFlow, DirectoryTierTakesWhatThePoolCannot) {
  ScenarioFolder scenario;
  const std::string tier = "[{name=\"disk\", path='" + scenario.path() + "/disk', capacity=\"64MiB\"}]";
  AgentClient client(scenario, {.node_keys = {{"pool.size", "4MiB"}, {"tier", tier}}});
  ASSERT_OK(client.Attach());
  ASSERT_EQ(client.attachment().welcome.tiers.size(), 2u);
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_OK(client.Capture(generation, 20 << 20));
  EXPECT_EQ(client.chunks_through(), 0u);
  ASSERT_OK(client.Wait(generation, Level::kStore));
  ASSERT_OK(CheckStored(scenario.store(), generation, 0, 20 << 20));
  ASSERT_OK(client.CheckLocal(generation, 20 << 20));
}

TEST(AgentFlow, OnlyEveryNthVersionGoesToTheStore) {
  ScenarioFolder scenario;
  ClientOptions options;
  options.keys.schedule_store = 2;
  AgentClient client(scenario, options);
  ASSERT_OK(client.Attach());
  for (int64_t version = 1; version <= 4; ++version) {
    ASSERT_OK(client.Capture(client.GenerationOf("ckpt", version), 1000));
    auto reached = client.Wait(client.GenerationOf("ckpt", version), Level::kLast);
    ASSERT_OK(reached);
    EXPECT_TRUE(reached->failure.ok()) << reached->failure.ToString();
    EXPECT_EQ(reached->level, version % 2 == 1 ? Level::kStore : Level::kLocal) << version;
  }
  auto refused = client.Wait(client.GenerationOf("ckpt", 4), Level::kStore);
  ASSERT_OK(refused);
  EXPECT_EQ(refused->failure.code(), Code::kFailedPrecondition) << refused->failure.ToString();
  ASSERT_OK(client.CheckLocal(client.GenerationOf("ckpt", 4), 1000)) << "the newest is on the node only, and stays";
}

TEST(AgentFlow, IdleExitLeavesNothing) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {.node_keys = {{"agent.idle_timeout", "1s"}}});
  ASSERT_OK(client.Attach());
  const int agent = scenario.AgentPid();
  ASSERT_NE(agent, 0);
  ASSERT_OK(client.Capture(client.GenerationOf("ckpt", 1), 3 << 20));
  ASSERT_OK(client.Goodbye());
  client.Disconnect();
  EXPECT_TRUE(WaitFor([&] { return !std::filesystem::exists(scenario.run_folder()); }, seconds(20)));
  EXPECT_EQ(StoredVersions(scenario.store(), "job", "ckpt"), std::vector<int64_t>{1}) << "it flushed before it left";
}

TEST(AgentFlow, IdleExitKeepsTheOnlyCopy) {
  ScenarioFolder scenario;
  ClientOptions options{.node_keys = {{"agent.idle_timeout", "1s"}}};
  options.keys.schedule_store = 0;
  AgentClient client(scenario, options);
  ASSERT_OK(client.Attach());
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_OK(client.Capture(generation, 3 << 20));
  ASSERT_OK(client.Goodbye());
  client.Disconnect();
  EXPECT_TRUE(WaitFor([&] { return scenario.AgentPid() == 0; }, seconds(20)));
  AgentClient next(scenario, options);
  ASSERT_OK(next.Attach());
  ASSERT_OK(next.CheckLocal(generation, 3 << 20));
}

TEST(AgentFlow, NodeKeysThatDifferAreRefusedByName) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {});
  ASSERT_OK(client.Attach());
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
  ASSERT_OK(first.Attach());
  ASSERT_OK(second.Attach());
  EXPECT_NE(first.attachment().welcome.tiers[0].path, second.attachment().welcome.tiers[0].path);
  EXPECT_TRUE(second.attachment().welcome.tiers[0].path.starts_with(two.keys.scratch));
  // The same job name, checkpoint name and version in two stores: never mixed.
  ASSERT_OK(first.Capture(first.GenerationOf("ckpt", 1), 2 << 20));
  ASSERT_OK(second.Capture(second.GenerationOf("ckpt", 1), 1 << 20));
  ASSERT_OK(first.Wait(first.GenerationOf("ckpt", 1), Level::kStore));
  ASSERT_OK(second.Wait(second.GenerationOf("ckpt", 1), Level::kStore));
  ASSERT_OK(CheckStored(scenario.store(), first.GenerationOf("ckpt", 1), 0, 2 << 20));
  ASSERT_OK(CheckStored(two.keys.store_path, second.GenerationOf("ckpt", 1), 0, 1 << 20));
  std::filesystem::remove_all(two.keys.scratch);
}

}  // namespace
}  // namespace kedge::testing
