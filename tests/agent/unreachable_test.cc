// An agent whose run folder is deleted: nobody can reach it any more. It stores what it holds and leaves, without a new pool, and
// without a touch on what another agent has made in its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/agent/agent_client.h"
#include "tests/support/child_process.h"

namespace kedge::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kImageBytes = 6 << 20;

class Unreachable : public ::testing::Test {
 protected:
  static std::map<std::string, std::string> Slowly() { return {{"flush.rate", "2MiB"}}; }
  void StartAgent(std::map<std::string, std::string> keys = Slowly()) {
    agent_ = std::make_unique<ChildProcess>(AgentCommand(scenario_.run_folder(), keys), std::map<std::string, std::string>{},
                                            scenario_.NewOutput());
    ASSERT_TRUE(WaitFor([&] { return AgentPidAt(scenario_.run_folder()) == agent_->pid(); }, seconds(20)));
  }
  // Takes a version that is seconds from being stored.
  Generation Take(AgentClient& client) {
    EXPECT_TRUE(IsOk(client.Attach()));
    const Generation generation = client.GenerationOf("ckpt", 1);
    EXPECT_TRUE(IsOk(client.Capture(generation, kImageBytes)));
    EXPECT_TRUE(
        WaitFor([&] { return client.mailbox().from_client.consumed == client.mailbox().from_client.produced; }, seconds(10)));
    return generation;
  }
  // An agent with that idle timeout has a version that is seconds from being stored, and its client has gone.
  Generation TakeAndLeave(const std::string& idle_timeout) {
    auto keys = Slowly();
    keys["agent.idle_timeout"] = idle_timeout;
    StartAgent(keys);
    AgentClient client(scenario_, {.node_keys = keys});
    const Generation generation = Take(client);
    EXPECT_TRUE(IsOk(client.Goodbye()));
    return generation;
  }
  void DeleteRunFolder() { std::filesystem::remove_all(scenario_.run_folder()); }
  // It ends in good order; a pool at its path meanwhile is a failure.
  void ExpectItLeavesWithoutANewPool() {
    const auto deadline = std::chrono::steady_clock::now() + seconds(20);
    bool pool = false;
    std::optional<ProcessResult> ended;
    while (!ended.has_value() && std::chrono::steady_clock::now() < deadline) {
      ended = agent_->Wait(milliseconds(20));
      pool = pool || std::filesystem::exists(scenario_.run_folder() + "/pool/pool");
    }
    ASSERT_TRUE(ended.has_value()) << "it is still there";
    EXPECT_TRUE(ended->exited && ended->exit_code == 0) << agent_->Output();
    EXPECT_FALSE(pool) << "a pool was made anew, for nobody";
  }

  ScenarioFolder scenario_;
  std::unique_ptr<ChildProcess> agent_;
};

TEST_F(Unreachable, WhileItDrains) {
  StartAgent();
  AgentClient client(scenario_, {.node_keys = Slowly()});
  const Generation generation = Take(client);
  auto told = client.connection().Call<DoneReply>(ShutdownRequest{.when_drained = true}, seconds(10));
  ASSERT_TRUE(IsOk(told.status()));
  ASSERT_TRUE(IsOk(client.Goodbye()));
  DeleteRunFolder();
  ExpectItLeavesWithoutANewPool();
  EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), generation, 0, kImageBytes)));
}

TEST_F(Unreachable, ToldNothing) {
  StartAgent();
  AgentClient client(scenario_, {.node_keys = Slowly()});
  const Generation generation = Take(client);
  ASSERT_TRUE(IsOk(client.Goodbye()));
  DeleteRunFolder();
  ExpectItLeavesWithoutANewPool();
  EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), generation, 0, kImageBytes)));
}

// Its memory is given back: nobody is to find an agent of a job that was deleted days ago.
TEST_F(Unreachable, WhileItsStoreIsGoneToo) {
  const Generation generation = TakeAndLeave("300ms");
  DeleteRunFolder();
  const std::string deleted = scenario_.store() + ".deleted";
  std::filesystem::rename(scenario_.store(), deleted);
  std::filesystem::remove_all(deleted);
  ExpectItLeavesWithoutANewPool();
  EXPECT_THAT(agent_->Output(), ::testing::HasSubstr(generation.ToString())) << "it is lost, and that is not said";
  EXPECT_FALSE(std::filesystem::exists(scenario_.store())) << "a store was made anew";
}

TEST_F(Unreachable, WhileItsStoreIsAwayForAWhile) {
  const Generation generation = TakeAndLeave("1s");
  const std::string away = scenario_.store() + ".away";
  std::filesystem::rename(scenario_.store(), away);
  DeleteRunFolder();
  EXPECT_FALSE(agent_->Wait(seconds(5)).has_value()) << "it gave up at once";
  std::filesystem::rename(away, scenario_.store());
  ExpectItLeavesWithoutANewPool();
  EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), generation, 0, kImageBytes)));
}

TEST_F(Unreachable, WhoeverIsAttachedGoesToItsSuccessor) {
  StartAgent();
  AgentClient client(scenario_, {.node_keys = Slowly()});
  const Generation first = Take(client);
  DeleteRunFolder();
  // The one that a client starts in its place, at once.
  ChildProcess successor(AgentCommand(scenario_.run_folder(), Slowly()), {}, scenario_.NewOutput());
  ASSERT_TRUE(WaitFor([&] { return AgentPidAt(scenario_.run_folder()) == successor.pid(); }, seconds(20)));
  auto former = agent_->Wait(seconds(20));
  ASSERT_TRUE(former.has_value()) << "the former agent is still there";
  EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), first, 0, kImageBytes)));
  AgentClient again(scenario_, {.attempt = 2, .node_keys = Slowly()});
  ASSERT_TRUE(IsOk(again.Attach()));
  EXPECT_EQ(AgentPidAt(scenario_.run_folder()), successor.pid());
  for (const char* file : {"agent.sock", "agent.sock.lock", "metrics.sock", "pool/pool"}) {
    EXPECT_TRUE(std::filesystem::exists(scenario_.run_folder() + "/" + file)) << file << " of the successor is gone";
  }
  const Generation second = again.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(again.Capture(second, 1 << 20)));
  ASSERT_TRUE(IsOk(again.Wait(second, Level::kStore)));
  ASSERT_TRUE(IsOk(again.Goodbye()));
}

}  // namespace
}  // namespace kedge::testing
