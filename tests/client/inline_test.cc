// Checkpoints without an agent (job.mode=sync): straight into the store, durable on return, restored by a later process.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/child_process.h"
#include "tests/support/scenario_folder.h"

namespace kedge::testing {
namespace {

using std::chrono::seconds;

const std::string kApp = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "pattern_app";

class InlineTest : public ::testing::Test {
 protected:
  InlineTest() {
    environment_ = folder_.Environment();
    environment_["KEDGE_JOB_MODE"] = "sync";
  }
  ChildProcess Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), kApp);
    return ChildProcess(arguments, environment_, folder_.NewOutput());
  }

  ScenarioFolder folder_;
  std::map<std::string, std::string> environment_;
};

TEST_F(InlineTest, ALaterProcessFindsTheNewestVersion) {
  auto first = Start({"steps=5"});
  ASSERT_TRUE(first.Succeeds(seconds(30)));
  auto second = Start({"steps=7"});
  ASSERT_TRUE(second.Succeeds(seconds(30)));
  EXPECT_NE(second.Output().find("restored 5\n"), std::string::npos) << second.Output();
  EXPECT_NE(second.Output().find("captured 6\ncaptured 7\nfinished"), std::string::npos) << second.Output();
}

TEST_F(InlineTest, ManyChunksInParts) {
  auto first = Start({"steps=2", "bytes=21000001", "parts=1"});
  ASSERT_TRUE(first.Succeeds(seconds(60)));
  auto second = Start({"bytes=21000001", "restart_only=1"});
  ASSERT_TRUE(second.Succeeds(seconds(60)));
  EXPECT_NE(second.Output().find("restored 2\n"), std::string::npos) << second.Output();
}

TEST_F(InlineTest, KilledAtRandomMomentsItAlwaysComesBack) {
  int64_t newest = -1;
  for (int round = 0; round < 8; ++round) {
    auto app = Start({"steps=100000", "bytes=300000", "grow=1", "drain=0"});
    ASSERT_TRUE(app.WaitForOutput("captured", seconds(30))) << app.Output();
    app.Wait(std::chrono::milliseconds(7 * round + 3));
    app.Kill();
    const std::string output = app.Output();
    ASSERT_EQ(output.find("failed"), std::string::npos) << output;
    ASSERT_EQ(output.find("WRONG"), std::string::npos) << output;
    if (const size_t at = output.find("restored "); at != std::string::npos) {
      const int64_t restored = std::stoll(output.substr(at + 9));
      EXPECT_GE(restored, newest) << output;
    } else {
      EXPECT_EQ(newest, -1) << output;
    }
    const size_t last = output.rfind("captured ");
    newest = std::stoll(output.substr(last + 9));
  }
}

}  // namespace
}  // namespace kedge::testing
