// What ranks leave for `kedge run`, each beside others of its launch.
#include "os/process/launch_note.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace kedge::os {
namespace {

class LaunchNoteTest : public ::testing::Test {
 protected:
  LaunchNoteTest() { setenv("KEDGE_RUN_LAUNCH", launch_.c_str(), 1); }
  ~LaunchNoteTest() override {
    unsetenv("KEDGE_RUN_LAUNCH");
    std::filesystem::remove(note_);
  }

  const std::string launch_ = fmt::format("test-{}", getpid());
  const std::string note_ = fmt::format("/dev/shm/kedge-{}/refusal-{}", geteuid(), launch_);
};

TEST_F(LaunchNoteTest, WhoSucceedsTakesBackItsOwnRefusal) {
  LeaveRefusal(Status(Code::kMismatch, "wrong"));
  EXPECT_TRUE(std::filesystem::exists(note_));
  TakeBackRefusal();
  EXPECT_FALSE(std::filesystem::exists(note_));
}

TEST_F(LaunchNoteTest, WhoSucceedsLeavesTheRefusalOfAnotherRank) {
  const pid_t other = fork();
  if (other == 0) {
    LeaveRefusal(Status(Code::kInvalidArgument, "each is alone"));
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(other, &status, 0), other);
  TakeBackRefusal();
  EXPECT_TRUE(std::filesystem::exists(note_));
}

}  // namespace
}  // namespace kedge::os
