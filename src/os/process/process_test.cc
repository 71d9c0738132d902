#include "os/process/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "os/files/files.h"
#include "os/process/folder.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using namespace std::chrono_literals;
using testing::TemporaryFolder;

// Waits for something that another process does; generous, because test machines are busy.
template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

// A child that sleeps until it is killed; killed and reaped with the test.
class Sleeper {
 public:
  Sleeper() : id_(fork()) {
    if (id_ == 0) {
      for (;;) pause();
    }
  }
  ~Sleeper() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  void Kill() { kill(id_, SIGKILL); }
  void Reap() {
    waitpid(id_, nullptr, 0);
    id_ = -1;
  }
  pid_t id() const { return id_; }

 private:
  pid_t id_;
};

TEST(Process, KnowsItselfAndOthers) {
  const ProcessIdentity self = OwnIdentity();
  EXPECT_EQ(self.process_id, getpid());
  EXPECT_GT(self.start_ticks, 0u);
  EXPECT_TRUE(IsAlive(self));
  ProcessIdentity reused = self;
  reused.start_ticks += 1;
  EXPECT_FALSE(IsAlive(reused)) << "the same id, another process";
  EXPECT_EQ(OpenPidfd(reused).status().code(), Code::kNotFound);
  EXPECT_EQ(SendSignal(reused, SIGKILL).code(), Code::kNotFound) << "or this test would end here";
  EXPECT_EQ(IdentityOf(0x3FFFFFFF).status().code(), Code::kNotFound);
}

TEST(Process, ZombiesAreDead) {
  Sleeper sleeper;
  const ProcessIdentity child = IdentityOf(sleeper.id()).value();
  EXPECT_TRUE(IsAlive(child));
  const UniqueFd pidfd = OpenPidfd(child).value();
  pollfd entry = {pidfd.get(), POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 0), 0);
  ASSERT_TRUE(SendSignal(child, SIGTERM).ok());
  EXPECT_EQ(poll(&entry, 1, 30'000), 1);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(child); })) << "not reaped, and dead all the same";
  sleeper.Reap();
  EXPECT_FALSE(IsAlive(child));
  EXPECT_EQ(OpenPidfd(child).status().code(), Code::kNotFound);
}

// /proc calls it a zombie, too; another thread may write where the first one did.
TEST(Process, LivesOnWhenItsFirstThreadHasEnded) {
  const pid_t child = fork();
  if (child == 0) {
    std::thread([] { pause(); }).detach();
    syscall(SYS_exit, 0);  // of this thread alone
  }
  const ProcessIdentity identity = IdentityOf(child).value();
  EXPECT_TRUE(Eventually([&] {
    const auto stat = ReadFile(SystemFileSystem(), "/proc/" + std::to_string(child) + "/stat", 1000);
    return stat.ok() && stat->find(") Z ") != std::string::npos;
  }));
  EXPECT_TRUE(IsAlive(identity));
  kill(child, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(identity); }));
  waitpid(child, nullptr, 0);
}

TEST(Process, ReadsNamesWithParenthesesAndSpaces) {
  const TemporaryFolder folder;
  const std::string program = folder / "a) R 1 (b";
  ASSERT_EQ(symlink("/bin/sleep", program.c_str()), 0);
  const pid_t child = fork();
  if (child == 0) {
    execl(program.c_str(), program.c_str(), "600", nullptr);
    _exit(1);
  }
  EXPECT_TRUE(Eventually([&] {
    const auto comm = ReadFile(SystemFileSystem(), "/proc/" + std::to_string(child) + "/comm", 100);
    return comm.ok() && comm->find("a) R") == 0;
  }));
  const auto identity = IdentityOf(child);
  EXPECT_TRUE(identity.ok() && IsAlive(*identity));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(Process, FindsItsOwnFolder) {
  EXPECT_EQ(ProgramFolder().value(), LibraryFolder().value()) << "linked statically into this test";
  EXPECT_TRUE(*Exists(SystemFileSystem(), JoinPath(*ProgramFolder(), "os_test")));
}

TEST(Process, MayHaveAsManyDescriptorsAsTheSystemLetsIt) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_TRUE(AllowDescriptors(50).ok());
  EXPECT_TRUE(AllowDescriptors(100).ok());
  rlimit now{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, 100U);
  const Status refused = AllowDescriptors(uint64_t{before.rlim_max} + 1);
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_NE(refused.message().find("and 100 allowed"), std::string::npos) << refused.message();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Process, EntersAFolder) {
  const std::string before = CurrentFolder().value();
  const testing::TemporaryFolder folder;
  ASSERT_TRUE(EnterFolder(folder.path()).ok());
  EXPECT_EQ(CurrentFolder().value(), folder.path());
  EXPECT_EQ(EnterFolder("nowhere").code(), Code::kNotFound);
  ASSERT_TRUE(EnterFolder(before).ok());
}

// Runs a shell script as a daemon that reports into a file, and ends it with the test.
class Daemon : public ::testing::Test {
 protected:
  ~Daemon() override {
    if (IsAlive(daemon_)) static_cast<void>(SendSignal(daemon_, SIGKILL));
  }
  void Start(const std::string& script, DaemonOptions options = {}) {
    options.program = "/bin/sh";
    options.arguments = {"-c", script};
    const auto spawned = SpawnDaemon(options);
    ASSERT_TRUE(spawned.ok()) << spawned.status().ToString();
    daemon_ = *spawned;
  }
  // The report: "key value" lines, complete when it ends with "end".
  std::map<std::string, std::string> Report() {
    std::string text;
    EXPECT_TRUE(Eventually([&] {
      const auto content = ReadFile(SystemFileSystem(), report_, 1 << 20);
      if (content.ok()) text = *content;
      return text.size() >= 4 && text.substr(text.size() - 4) == "end\n";
    })) << text;
    std::map<std::string, std::string> report;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const size_t separator = line.find_first_of(" \t");
      report[line.substr(0, separator)] = separator == std::string::npos ? "" : line.substr(line.find_last_of(" \t") + 1);
    }
    return report;
  }
  std::string CpusOf(pid_t id) {
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(sched_getaffinity(id, sizeof set, &set), 0);
    return std::to_string(CPU_COUNT(&set));
  }

  TemporaryFolder folder_;
  const std::string report_ = folder_ / "report";
  ProcessIdentity daemon_;
};

TEST_F(Daemon, InheritsNothingThatItShouldNot) {
  // What a launcher may have done to this process.
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGUSR2);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const auto old_handler = signal(SIGHUP, SIG_IGN);
  const int leaked = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  cpu_set_t all;
  cpu_set_t one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const mode_t old_umask = umask(0);
  setenv("KEDGE_TEST_KEPT", "kept", 1);
  setenv("KEDGE_TEST_REMOVED", "removed", 1);
  setenv("OMPI_TEST_RANK", "3", 1);

  DaemonOptions options;
  options.unset = {"KEDGE_TEST_REMOVED", "OMPI_*"};
  options.set = {{"KEDGE_TEST_SET", "value=with=equals"}};
  options.log_path = folder_ / "log";
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  options.descriptors = {ends[1], ends[0]};
  Start("exec >" + report_ + R"(; 
    echo pid $$; read -r pid comm state ppid pgrp sid rest < /proc/$$/stat; echo ppid $ppid; echo sid $sid
    echo cwd $(pwd); echo umask $(umask)
    echo kept ${KEDGE_TEST_KEPT-none}; echo removed ${KEDGE_TEST_REMOVED-none}; echo ompi ${OMPI_TEST_RANK-none}
    echo set $KEDGE_TEST_SET
    echo stdin $(readlink /proc/$$/fd/0); echo stderr $(readlink /proc/$$/fd/2); echo to-the-log >&2
    echo through-the-pipe >&3
    echo end; exec sleep 600)",
        options);
  umask(old_umask);
  sched_setaffinity(0, sizeof all, &all);
  close(leaked);
  signal(SIGHUP, old_handler);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  unsetenv("OMPI_TEST_RANK");

  auto report = Report();
  EXPECT_EQ(report["pid"], std::to_string(daemon_.process_id));
  EXPECT_NE(report["ppid"], std::to_string(getpid()));
  EXPECT_EQ(report["sid"], report["pid"]) << "leads a session of its own";
  EXPECT_EQ(report["cwd"], "/");
  EXPECT_EQ(report["umask"], "0077");
  // A shell blocks signals for moments while it starts commands; sleep, which it has become, does not.
  const std::string status_path = "/proc/" + report["pid"] + "/status";
  for (const char* clear : {"SigBlk:\t0000000000000000\n", "SigIgn:\t0000000000000000\n"}) {
    std::string status;
    EXPECT_TRUE(Eventually([&] {
      status = ReadFile(SystemFileSystem(), status_path, 1 << 20).value();
      return status.find(clear) != std::string::npos;
    })) << clear
        << "is not in\n"
        << status;
  }
  EXPECT_EQ(report["kept"], "kept");
  EXPECT_EQ(report["removed"], "none");
  EXPECT_EQ(report["ompi"], "none");
  EXPECT_EQ(report["set"], "value=with=equals");
  // While sleep is being loaded, its libraries are open.
  std::set<std::string> open_descriptors;
  EXPECT_TRUE(Eventually([&] {
    open_descriptors.clear();
    const auto entries = SystemFileSystem().List("/proc/" + report["pid"] + "/fd").value();
    for (const FolderEntry& entry : entries) open_descriptors.insert(entry.name);
    return open_descriptors == std::set<std::string>({"0", "1", "2", "3", "4"});
  })) << "no launcher waits for it: "
      << ::testing::PrintToString(open_descriptors);
  EXPECT_EQ(report["stdin"], "/dev/null");
  EXPECT_EQ(report["stderr"], folder_ / "log");
  EXPECT_EQ(CpusOf(daemon_.process_id), std::to_string(CPU_COUNT(&all)));
  EXPECT_EQ(ReadFile(SystemFileSystem(), folder_ / "log", 1000).value(), "to-the-log\n");
  char text[32] = {};
  EXPECT_EQ(read(ends[0], text, sizeof text), 17) << "the passed descriptors arrive in their order";
  EXPECT_STREQ(text, "through-the-pipe\n");
  close(ends[0]);
  close(ends[1]);
}

TEST_F(Daemon, IsNoChildOfTheApplication) {
  static std::atomic<int> signals{0};
  struct sigaction action {};
  action.sa_handler = [](int) { ++signals; };
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGCHLD, &action, &before), 0);
  Start("exec sleep 600");
  EXPECT_TRUE(IsAlive(daemon_));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  ASSERT_TRUE(SendSignal(daemon_, SIGKILL).ok());
  EXPECT_TRUE(Eventually([&] { return !IsAlive(daemon_); }));
  sigaction(SIGCHLD, &before, nullptr);
  EXPECT_EQ(signals, 0) << "neither for the daemon nor for what started it";
}

TEST_F(Daemon, LeavesNoZombieInTheProcessTableOfTheApplication) {
  Start("exit 0");
  EXPECT_TRUE(Eventually([&] { return !IsAlive(daemon_); }));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

TEST_F(Daemon, ReportsWhatCannotBeExecuted) {
  DaemonOptions options;
  options.program = folder_ / "none";
  const Status missing = SpawnDaemon(options).status();
  EXPECT_EQ(missing.errno_value(), ENOENT);
  EXPECT_NE(missing.message().find("none"), std::string::npos) << missing.message();
  options.program = folder_.path();
  EXPECT_EQ(SpawnDaemon(options).status().errno_value(), EACCES);
  options.program = "/bin/true";
  options.log_path = folder_ / "no/log";
  EXPECT_EQ(SpawnDaemon(options).status().errno_value(), ENOENT);
}

TEST_F(Daemon, CanBeStartedFromManyThreadsWhileOthersWork) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      const std::string text(1000, 'x');
      EXPECT_EQ(text.size(), 1000u);
    }
  });
  std::vector<std::thread> starters;
  for (int t = 0; t < 3; ++t) {
    starters.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        DaemonOptions options;
        options.program = "/bin/sh";
        options.arguments = {"-c", "echo $$ > " + (folder_ / (std::to_string(t) + "." + std::to_string(i)))};
        EXPECT_TRUE(SpawnDaemon(options).ok());
      }
    });
  }
  for (std::thread& starter : starters) starter.join();
  stop = true;
  busy.join();
  EXPECT_TRUE(Eventually([&] { return SystemFileSystem().List(folder_.path())->size() == 15; }));
}

}  // namespace
}  // namespace kedge::os
