// kedge_checkpoint_due and kedge_should_exit when nothing is due: they are asked at every step of the application, so they touch
// no file and send nothing, on any number of nodes, but for the bootstrap's broadcasts. The system calls that they may make are
// those of a lock: of the context, and of the bootstrap of threads.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "base/testing/sanitized.h"
#include "tests/support/virtual_nodes.h"

namespace kedge::testing {
namespace {

std::atomic<int> trapped_calls{0};
std::atomic<long> trapped_number{0};

void OnTrap(int, siginfo_t* info, void*) {
  ++trapped_calls;
  trapped_number = info->si_syscall;
}

// From here on every system call of this thread is counted and not made, but for a lock's and those that end it.
bool TrapSystemCalls() {
  struct sigaction action {};
  action.sa_sigaction = OnTrap;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  const std::vector<int> allowed = {SYS_rt_sigreturn, SYS_exit,  SYS_exit_group,     SYS_munmap,
                                    SYS_madvise,      SYS_futex, SYS_rt_sigprocmask, SYS_sched_yield};
  std::vector<sock_filter> program = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (size_t i = 0; i < allowed.size(); ++i) {
    const auto to_allow = static_cast<uint8_t>(allowed.size() - i);
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(allowed[i]), to_allow, 0));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
}

class Questions : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Keys, Questions, ::testing::Values("", "protect.scheme=partner\n"),
                         [](const auto& keys) { return std::string(keys.param[0] == '\0' ? "Unprotected" : "Protected"); });

TEST_P(Questions, OverTwoNodesTouchNothingWhenNothingIsDue) {
  if (kIsSanitized) GTEST_SKIP() << "the sanitizer's runtime makes system calls of its own";
  constexpr int kCalls = 2000;
  const VirtualNodes nodes(2);
  trapped_calls = 0;
  nodes.Run({0, 1}, std::string("schedule.interval=1h\n") + GetParam(), [](kedge_context* context, int) {
    int due = 0, exit = 0;
    EXPECT_EQ(kedge_checkpoint_due(context, &due), KEDGE_OK) << kedge_error_message();
    EXPECT_EQ(kedge_should_exit(context, &exit), KEDGE_OK) << kedge_error_message();
    // What another thread of the process asks is none of this one's doing; the filter ends with its thread.
    int failures = 0;
    std::thread([&] {
      if (!TrapSystemCalls()) {
        failures = kCalls;
        return;
      }
      for (int i = 0; i < kCalls; ++i) {
        failures += kedge_checkpoint_due(context, &due) != KEDGE_OK || due != 0;
        failures += kedge_should_exit(context, &exit) != KEDGE_OK || exit != 0;
      }
    }).join();
    EXPECT_EQ(failures, 0);
  });
  EXPECT_EQ(trapped_calls.load(), 0) << "the last was system call " << trapped_number.load();
}

}  // namespace
}  // namespace kedge::testing
