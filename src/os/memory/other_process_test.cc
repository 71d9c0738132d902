#include "os/memory/other_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace kedge::os {
namespace {

TEST(OtherMemory, IsCopiedWhole) {
  std::string text(3 << 20, 'k');
  text.back() = '!';
  const auto address = reinterpret_cast<uint64_t>(text.data());
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  std::fill(text.begin(), text.end(), ' ');
  std::string copy(text.size(), '\0');
  const Status status = ReadOtherMemory(child, address, copy.data(), copy.size());
  kill(child, SIGKILL);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(copy.front(), 'k');
  EXPECT_EQ(copy.back(), '!');
  // A zombie has no memory.
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(ReadOtherMemory(child, address, copy.data(), copy.size()).code(), Code::kNotFound);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(ReadOtherMemory(child, address, copy.data(), copy.size()).code(), Code::kNotFound);
}

TEST(OtherMemory, FailsWhereNothingIsMapped) {
  char byte = 0;
  EXPECT_FALSE(ReadOtherMemory(ThisProcess(), 8, &byte, 1).ok());
}

}  // namespace
}  // namespace kedge::os
