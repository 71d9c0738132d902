// What another user of the machine has prepared where a run folder or a tier is to be: nothing of it is used, and it is said.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "os/testing/other_user.h"
#include "os/testing/temporary_folder.h"
#include "tests/agent/agent_client.h"
#include "tests/support/child_process.h"

namespace kedge::testing {
namespace {

using os::testing::AsAnotherUser;

class OtherUsers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!os::testing::CanPlayAnotherUser()) GTEST_SKIP() << "only root can be several users";
  }
  void TearDown() override {
    for (const std::string& folder : tried_) KillAgentAt(folder);
  }
  // A client whose run folder is that one starts no agent there, and says why.
  void ExpectRefused(const std::string& run_folder, const std::string& part) {
    tried_.push_back(run_folder);
    AgentClient client(scenario_, {.run_folder = run_folder});
    const Status refused = client.Attach();
    EXPECT_EQ(refused.code(), Code::kPermission) << refused.ToString();
    EXPECT_NE(refused.message().find(part), std::string::npos) << refused.message();
    EXPECT_EQ(AgentPidAt(run_folder), 0) << "an agent serves there";
  }
  std::vector<std::string> tried_;
  ScenarioFolder scenario_;
  const os::testing::SharedFolder shared_{"/dev/shm"};
  const os::testing::TemporaryFolder ours_;  // not meant
};

TEST_F(OtherUsers, ALogPreparedAsALinkIsNotWritten) {
  const std::string run_folder = shared_ / "node";
  ASSERT_TRUE(AsAnotherUser([&] {
    return mkdir(run_folder.c_str(), 0777) == 0 && symlink((ours_ / "profile").c_str(), (run_folder + "/agent.log").c_str()) == 0;
  }));
  ExpectRefused(run_folder, run_folder + " belongs to user 65534");
  EXPECT_FALSE(std::filesystem::exists(ours_ / "profile"));
}

// A client opens the log before it starts an agent; one that is started by hand opens it itself (kedge agent --log).
TEST_F(OtherUsers, ALogThatIsALinkIsNotWrittenByAnAgentStartedByHand) {
  const std::string run_folder = shared_ / "node";
  tried_.push_back(run_folder);
  ASSERT_EQ(mkdir(run_folder.c_str(), 0700), 0);
  ASSERT_EQ(symlink((ours_ / "profile").c_str(), (run_folder + "/agent.log").c_str()), 0);
  std::vector<std::string> command = AgentCommand(run_folder);
  std::erase(command, "--foreground");
  ChildProcess agent(command, {}, scenario_.NewOutput());
  EXPECT_TRUE(agent.WaitForOutput("agent.log is a symbolic link", std::chrono::seconds(20))) << agent.Output();
  EXPECT_TRUE(agent.WaitForOutput("serves node", std::chrono::seconds(20))) << "the log stays on stderr";
  EXPECT_FALSE(std::filesystem::exists(ours_ / "profile"));
}

TEST_F(OtherUsers, AFolderAboveTheRunFolderIsRefused) {
  ASSERT_TRUE(AsAnotherUser([&] { return mkdir((shared_ / "way").c_str(), 0777) == 0; }));
  ASSERT_EQ(mkdir((shared_ / "way/node").c_str(), 0700), 0);
  ExpectRefused(shared_ / "way/node", shared_ / "way belongs to user 65534");
  EXPECT_TRUE(std::filesystem::is_empty(shared_ / "way/node"));
}

TEST_F(OtherUsers, ALinkAboveTheRunFolderIsRefused) {
  ASSERT_TRUE(AsAnotherUser([&] { return symlink(ours_.path().c_str(), (shared_ / "way").c_str()) == 0; }));
  ExpectRefused(shared_ / "way/node", shared_ / "way is a symbolic link");
  EXPECT_TRUE(std::filesystem::is_empty(ours_.path()));
}

TEST_F(OtherUsers, ADirectoryTierPreparedByOneIsNotUsed) {
  const os::testing::SharedFolder disk;
  const std::string run_folder = shared_ / "node";
  const std::string prepared = disk / ("kedge-" + std::to_string(geteuid()) + "-scenario");
  ASSERT_TRUE(AsAnotherUser([&] { return mkdir(prepared.c_str(), 0777) == 0; }));
  tried_.push_back(run_folder);
  const std::string tier = "[{name=\"disk\", path='" + disk.path() + "', capacity=\"64MiB\"}]";
  AgentClient client(scenario_, {.node_keys = {{"node.name", "scenario"}, {"tier", tier}}, .run_folder = run_folder});
  ASSERT_TRUE(IsOk(client.Attach()));
  for (const auto& attached : client.attachment().tiers) EXPECT_NE(attached->info().name, "disk");
  EXPECT_TRUE(std::filesystem::is_empty(prepared));
  EXPECT_NE(ReadWhole(run_folder + "/agent.log").find(prepared + " belongs to user 65534 (mode 0777)"), std::string::npos);
  EXPECT_TRUE(IsOk(client.Goodbye()));
}

}  // namespace
}  // namespace kedge::testing
