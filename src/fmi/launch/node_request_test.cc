#include "fmi/launch/node_request.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "os/files/files.h"
#include "os/testing/temporary_folder.h"

namespace kedge::fmi {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Request : public ::testing::Test {
 protected:
  void Ask(const std::string& command) {
    auto created = NodeRequest::Create(loop.get(), command, [this](const Result<FoundNode>& told) {
      ++times;
      found.emplace(told);
      request.reset();
    });
    ASSERT_TRUE(created.ok());
    request = std::move(*created);
  }
  void RunUntilTold() {
    const auto end = std::chrono::steady_clock::now() + seconds(60);
    while (!found && std::chrono::steady_clock::now() < end) ASSERT_TRUE(loop->RunOnce(milliseconds(5)).ok());
    ASSERT_TRUE(found);
  }

  std::unique_ptr<os::EventLoop> loop = os::EventLoop::Create().value();
  std::unique_ptr<NodeRequest> request;
  std::optional<Result<FoundNode>> found;
  int times = 0;
};

TEST_F(Request, IsAnsweredWithANameAndAShell) {
  Ask("sleep 0.05; echo 'n7  srun --jobid=4711 --nodelist'; echo more");
  RunUntilTold();
  ASSERT_TRUE(found->ok()) << found->status().ToString();
  EXPECT_EQ((*found)->name, "n7");
  EXPECT_EQ((*found)->shell, "srun --jobid=4711 --nodelist");
  (void)loop->RunOnce(milliseconds(5));
  EXPECT_EQ(times, 1);
}

TEST_F(Request, SaysWhyThereIsNone) {
  Ask("echo n7; exit 3");
  RunUntilTold();
  EXPECT_EQ(found->status().message(), "it ended with 3");
  found.reset();
  Ask("kill -9 $$");
  RunUntilTold();
  EXPECT_EQ(found->status().message(), "it was killed by signal 9");
}

TEST_F(Request, EndsTheCommandWithItself) {
  const os::testing::TemporaryFolder folder;
  Ask("exec 2>&- ; sleep 0.3; echo late > " + folder.path() + "/late");
  request.reset();
  const auto end = std::chrono::steady_clock::now() + milliseconds(500);
  while (std::chrono::steady_clock::now() < end) ASSERT_TRUE(loop->RunOnce(milliseconds(5)).ok());
  EXPECT_EQ(times, 0);
  EXPECT_FALSE(os::Exists(os::SystemFileSystem(), folder.path() + "/late").value());
}

TEST(FoundNode, IsALine) {
  EXPECT_EQ(ParseFoundNode("n7").value().name, "n7");
  EXPECT_EQ(ParseFoundNode(" n7\t\r\n").value().shell, "");
  for (const char* text : {"", "\n", "  \nn7\n", "-n7", "n7,n8"}) {
    EXPECT_EQ(ParseFoundNode(text).status().code(), Code::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace kedge::fmi
