// Checkpoints without an agent (job.mode=sync): straight into the store, durable on return, restored by a later process.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

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

// Nobody puts the file of a version at its path once its client is dead. The version has it.
TEST_F(InlineTest, ARoutedFileOfAClientThatDiesIsInTheVersionAndNotAtItsPath) {
  const std::string results = folder_.path() + "/results", path = results + "/output.txt";
  std::filesystem::create_directory(results);
  const auto published = [&] {
    std::string content;
    std::getline(std::ifstream(path), content);
    return content;
  };
  auto first = Start({"steps=1", "parts=1", "file=" + path});
  ASSERT_TRUE(first.Succeeds(seconds(30)));
  EXPECT_EQ(published(), "1");
  environment_["KEDGE_TEST_KILL_POINT"] = "file-written";
  auto killed = Start({"steps=2", "parts=1", "file=" + path});
  const auto result = killed.Wait(seconds(30));
  ASSERT_TRUE(result.has_value() && result->signal == SIGKILL) << killed.Output();
  EXPECT_EQ(published(), "1");
  environment_.erase("KEDGE_TEST_KILL_POINT");
  auto second = Start({"restart_only=1", "file=" + path});
  ASSERT_TRUE(second.Succeeds(seconds(30)));
  EXPECT_NE(second.Output().find("restored 2\n"), std::string::npos) << second.Output();
  EXPECT_NE(second.Output().find("file 2\n"), std::string::npos) << second.Output();
  EXPECT_EQ(published(), "1") << "it may be newer than what was restored: nobody can tell";
  auto third = Start({"steps=3", "parts=1", "file=" + path});
  ASSERT_TRUE(third.Succeeds(seconds(30)));
  EXPECT_EQ(published(), "3");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(results), {}), 1) << "something half written is left there";
}

}  // namespace
}  // namespace kedge::testing
