// A client that is stopped (SIGSTOP, a debugger, a frozen cgroup) in mid-copy, for longer than any timeout of the agent, and goes
// on.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <thread>

#include "tests/agent/agent_client.h"
#include "tests/support/child_process.h"

namespace kedge::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kBytes = 4000000;

bool IsStopped(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] == 'T';
}

TEST(StoppedClient, GoesOnWhereItWasAndOthersDoMeanwhile) {
  ScenarioFolder scenario;
  const StoreId store = MakeStoreOf(scenario.store());
  ChildProcess actor({KEDGE_TEST_ACTOR, scenario.run_folder(), scenario.store(), "0", "1", "half:1:" + std::to_string(kBytes),
                      "stop", "end", "wait:1", "capture:2:" + std::to_string(kBytes), "wait:2", "goodbye"},
                     {}, scenario.NewOutput());
  ASSERT_TRUE(actor.WaitForOutput("doing stop", seconds(30))) << actor.Output();
  ASSERT_TRUE(WaitFor([&] { return IsStopped(actor.pid()); }, seconds(10)));
  // Another job wants all the room there is, again and again.
  AgentClient busy(scenario, {.job = "other"});
  ASSERT_TRUE(IsOk(busy.Attach()));
  const auto stopped_until = std::chrono::steady_clock::now() + seconds(7);
  int64_t version = 0;
  while (std::chrono::steady_clock::now() < stopped_until) {
    const Generation generation = busy.GenerationOf("ckpt", ++version);
    ASSERT_TRUE(IsOk(busy.Capture(generation, 14 << 20)));
    auto stored = busy.Wait(generation, Level::kStore);
    ASSERT_TRUE(IsOk(stored));
    ASSERT_TRUE(IsOk(stored->failure));
    ASSERT_TRUE(IsOk(CheckStored(scenario.store(), generation, 0, 14 << 20)));
    std::this_thread::sleep_for(milliseconds(200));
  }
  EXPECT_GT(version, 1);
  ASSERT_TRUE(IsStopped(actor.pid()));
  actor.Signal(SIGCONT);
  ASSERT_TRUE(actor.Succeeds(seconds(60)));
  for (int64_t taken : {1, 2}) {
    EXPECT_TRUE(
        IsOk(CheckStored(scenario.store(), Generation{store, "job", "ckpt", taken, 1, static_cast<uint32_t>(taken)}, 0, kBytes)))
        << taken;
  }
}

}  // namespace
}  // namespace kedge::testing
