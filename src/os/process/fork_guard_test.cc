// The fork guard: a child knows that it is one, the parent stays what it was.
#include "os/process/fork_guard.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kedge::os {
namespace {

TEST(ForkGuard, OnlyTheChildIsInTheChild) {
  auto guard = ForkGuard::Create();
  ASSERT_TRUE(guard.ok());
  EXPECT_FALSE(guard->InChild());
  const pid_t child = fork();
  if (child == 0) _exit(guard->InChild() ? 7 : 8);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_FALSE(guard->InChild());
}

}  // namespace
}  // namespace kedge::os
