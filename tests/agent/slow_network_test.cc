// An agent whose network takes long to open, as on a machine that is busy with something else: whoever comes meanwhile is
// answered, and a rank that needs the network waits for it longer than for an agent that says nothing.
#include <gtest/gtest.h>

#include <future>

#include "tests/agent/agent_client.h"
#include "tests/support/child_process.h"

namespace kedge::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

TEST(SlowNetwork, ARankWaitsForItAndNobodyElseDoes) {
  ScenarioFolder scenario;
  ChildProcess agent(AgentCommand(scenario.run_folder()),
                     {{"FI_PROVIDER_PATH", KEDGE_TEST_PROVIDERS}, {"KEDGE_TEST_SLOW_PROVIDER_MS", "4000"}}, scenario.NewOutput());
  ASSERT_TRUE(WaitFor([&] { return AgentPidAt(scenario.run_folder()) == agent.pid(); }, seconds(20)));
  const auto connect = [&] {
    ConnectOptions options;
    options.node = ReadNodeSettings(NodeConfig(scenario.run_folder())).value();
    options.start_agent = false;
    return Connection::Connect(options).value();
  };
  Hello hello = AgentClient(scenario, {.ranks = 2}).hello();
  hello.ranks_on_node = 1;
  ASSERT_TRUE(hello.NeedsPeers());

  const auto begin = Clock::now();
  auto attached = std::async(std::launch::async, [&] { return connect()->Attach(hello, seconds(3)); });
  std::this_thread::sleep_for(milliseconds(200));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(IsOk(connect()->AttachTool(seconds(1))));
  EXPECT_LT(Clock::now() - begin, milliseconds(2500)) << "tools wait for the network";

  const auto welcome = attached.get();
  ASSERT_TRUE(IsOk(welcome.status())) << agent.Output();
  EXPECT_FALSE(welcome->welcome.address.empty());
  EXPECT_GE(Clock::now() - begin, milliseconds(3500)) << "the provider was not slow: this tests nothing";
}

}  // namespace
}  // namespace kedge::testing
