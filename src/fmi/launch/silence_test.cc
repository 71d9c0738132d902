#include "fmi/launch/silence.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace kedge::fmi {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SilentNodes : public ::testing::Test {
 protected:
  // `script`: what is run on a node that is silent.
  void Watch(const std::string& script, Duration silent = milliseconds(50), Duration answer = seconds(60)) {
    Silence::Events events;
    events.command = [this, script](size_t) {
      ++asked;
      os::ChildOptions options;
      options.program = "sh";
      options.arguments = {"-c", script};
      return options;
    };
    events.stands_still = [this](size_t node) { still.push_back(node); };
    events.lost = [this](size_t node, const std::string& why) {
      lost.push_back(node);
      reason = why;
    };
    silence = std::make_unique<Silence>(loop.get(), events, Silence::Limits{milliseconds(5), silent, answer});
  }
  template <typename Condition>
  void RunUntil(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + seconds(60);
    while (!condition() && std::chrono::steady_clock::now() < end) ASSERT_TRUE(loop->RunOnce(milliseconds(5)).ok());
    ASSERT_TRUE(condition());
  }

  std::unique_ptr<os::EventLoop> loop = os::EventLoop::Create().value();
  std::unique_ptr<Silence> silence;
  int asked = 0;
  std::vector<size_t> still;
  std::vector<size_t> lost;
  std::string reason;
};

TEST_F(SilentNodes, AreNotLostWhileTheyRunCommands) {
  Watch("exit 0");
  silence->OnHeard(7);
  RunUntil([&] { return asked >= 4; });
  EXPECT_EQ(still, std::vector<size_t>{7}) << "told once";
  EXPECT_TRUE(lost.empty());
}

TEST_F(SilentNodes, AreToldAgainWhenTheyHaveBeenHeard) {
  Watch("exit 0");
  silence->OnHeard(7);
  RunUntil([&] { return still.size() == 1; });
  silence->OnHeard(7);
  RunUntil([&] { return still.size() == 2; });
}

TEST_F(SilentNodes, AreLostWhenNoCommandCanBeRunThere) {
  Watch("exit 255");
  silence->OnHeard(7);
  RunUntil([&] { return !lost.empty(); });
  EXPECT_EQ(lost, std::vector<size_t>{7});
  EXPECT_NE(reason.find("no command can be run there (exit code 255)"), std::string::npos) << reason;
  const int once = asked;
  for (int turn = 0; turn < 30; ++turn) ASSERT_TRUE(loop->RunOnce(milliseconds(5)).ok());
  EXPECT_EQ(asked, once) << "it is forgotten";
}

TEST_F(SilentNodes, AreLostWhenACommandDoesNotEnd) {
  Watch("exec sleep 600", milliseconds(50), milliseconds(100));
  silence->OnHeard(7);
  RunUntil([&] { return !lost.empty(); });
  EXPECT_NE(reason.find("does not end within"), std::string::npos) << reason;
}

TEST_F(SilentNodes, AreNotLostWhenTheyAreHeardBeforeTheAnswer) {
  Watch("sleep 0.5; exit 255", seconds(1));
  silence->OnHeard(7);
  RunUntil([&] { return asked == 1; });
  const auto end = std::chrono::steady_clock::now() + milliseconds(1000);
  while (std::chrono::steady_clock::now() < end) {
    silence->OnHeard(7);
    ASSERT_TRUE(loop->RunOnce(milliseconds(5)).ok());
  }
  EXPECT_TRUE(lost.empty()) << reason;
}

TEST_F(SilentNodes, AreNotAskedWhileTheyAreHeard) {
  Watch("exit 255", seconds(1));
  for (int turn = 0; turn < 600; ++turn) {
    silence->OnHeard(7);
    ASSERT_TRUE(loop->RunOnce(milliseconds(2)).ok());
  }
  EXPECT_EQ(asked, 0);
}

}  // namespace
}  // namespace kedge::fmi
