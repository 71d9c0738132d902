// What an application may do to a library: fork, exec, threads, several contexts, losing its agent in any call.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/client/api_fixture.h"

namespace kedge::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class ProcessTest : public ApiTest {
 protected:
  // The times of the job's attempts in the store are so far from now.
  void DateAttempts(std::chrono::hours from_now) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.store())) {
      if (entry.is_regular_file() && entry.path().parent_path().filename() == "attempts") {
        std::filesystem::last_write_time(entry.path(), std::filesystem::file_time_type::clock::now() + from_now);
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, ProcessTest, ::testing::Values(kInline, kAgent), ModeName);

// Whether the file is there within ten seconds.
bool Appears(const std::string& path) {
  for (int i = 0; i < 1000 && !std::filesystem::exists(path); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return std::filesystem::exists(path);
}

int ExitCodeOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_P(ProcessTest, AForkedChildIsRefusedAndTheParentGoesOn) {
  kedge_context* context = Open();
  int value = 5;
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &value, 1, sizeof value, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "f", 1, 0));
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = kedge_checkpoint(context, "f", 2, 0) == KEDGE_ERROR_FAILED_PRECONDITION &&
                         std::string(kedge_error_message()).find("child") != std::string::npos &&
                         kedge_restart(context, "f", -1, nullptr) == KEDGE_ERROR_FAILED_PRECONDITION &&
                         kedge_finalize(context, 1) == KEDGE_ERROR_FAILED_PRECONDITION;
    _exit(refused ? 0 : 1);
  }
  EXPECT_EQ(ExitCodeOf(child), 0);
  const pid_t running = fork();
  if (running == 0) {
    execlp("true", "true", static_cast<char*>(nullptr));
    _exit(9);
  }
  EXPECT_EQ(ExitCodeOf(running), 0);
  value = 6;
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "f", 2, 0));
  EXPECT_KEDGE_OK(kedge_wait(context, "f", 2, KEDGE_LEVEL_STORE, 30));
  value = 0;
  ASSERT_KEDGE_OK(kedge_restart(context, "f", -1, nullptr));
  EXPECT_EQ(value, 6);
}

TEST_P(ProcessTest, NobodyIsToldOfTheLeaseOfAHolderThatHasEnded) {
  Close(Open());
  DateAttempts(-std::chrono::hours(1));
  ::testing::internal::CaptureStderr();
  const kedge_context* context = Open();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_NE(context, nullptr);
}

// Its machine shows that it lives, and its record's time says nothing: a clock was set back since.
TEST_P(ProcessTest, AHolderThatHangsIsTakenOverWhateverTheTimeOfItsRecordSays) {
  const pid_t holder = fork();
  if (holder == 0) {
    Open("job.lease=1s\n");
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(holder, &status, WUNTRACED), holder);
  DateAttempts(std::chrono::hours(24));
  Open("job.lease=1s\n");
  kill(holder, SIGKILL);
  waitpid(holder, &status, 0);
}

TEST_P(ProcessTest, DescriptorsDoNotPassAnExec) {
  std::set<std::string> before;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) before.insert(entry.path().filename());
  kedge_context* context = Open();
  ASSERT_NE(context, nullptr);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string name = entry.path().filename();
    std::ifstream info("/proc/self/fdinfo/" + name);
    const std::string text{std::istreambuf_iterator<char>(info), std::istreambuf_iterator<char>()};
    const size_t at = text.find("flags:");
    if (before.contains(name) || at == std::string::npos) continue;
    const unsigned long flags = std::stoul(text.substr(at + 6), nullptr, 8);
    EXPECT_NE(flags & 02000000ul, 0ul) << std::filesystem::read_symlink(entry.path()) << " is open without O_CLOEXEC";
  }
}

TEST_P(ProcessTest, ContextsOnSeveralThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const std::string overrides = Overrides("job.name=thread " + std::to_string(i) + "\n");
      kedge_options options = KEDGE_OPTIONS_INIT;
      options.overrides = overrides.c_str();
      kedge_context* context = nullptr;
      ASSERT_KEDGE_OK(kedge_init(&options, nullptr, &context));
      std::vector<int> data(200000, i);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), sizeof(int), nullptr));
      for (int version = 0; version < 10; ++version) EXPECT_KEDGE_OK(kedge_checkpoint(context, "t", version, 0));
      data.assign(data.size(), -1);
      EXPECT_KEDGE_OK(kedge_restart(context, "t", -1, nullptr));
      EXPECT_EQ(data, std::vector<int>(200000, i));
      EXPECT_KEDGE_OK(kedge_finalize(context, 1));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Each has a slot of its own for what is small, which is backed in part only.
TEST_P(ProcessTest, MoreContextsThanThePoolHasFullSlots) {
  std::vector<kedge_context*> contexts;
  int value = 1;
  for (int i = 0; i < 12; ++i) {
    contexts.push_back(Open("job.name=many" + std::to_string(i) + "\nchunk.size=16MiB\nschedule.store=0\nwait.timeout=5s\n"));
    ASSERT_KEDGE_OK(kedge_protect(contexts.back(), 0, &value, 1, sizeof value, nullptr));
  }
  for (kedge_context* context : contexts) {
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "m", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "m", 1, KEDGE_LEVEL_LOCAL, 5));
  }
  for (kedge_context* context : contexts) {
    EXPECT_EQ(Statistics(context).checkpoints_inline, GetParam().name == std::string("Agent") ? 0u : 1u);
    Close(context, 0);
  }
}

TEST_P(ProcessTest, OneContextFromSeveralThreads) {
  kedge_context* context = Open();
  std::vector<int> data(1000, 1);
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), sizeof(int), nullptr));
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([context, i] {
      const std::string name = "name " + std::to_string(i);
      for (int version = 0; version < 20; ++version) {
        EXPECT_KEDGE_OK(kedge_checkpoint(context, name.c_str(), version, 0));
        if (version % 5 == 0) {
          EXPECT_KEDGE_OK(kedge_wait(context, name.c_str(), version, KEDGE_LEVEL_STORE, 60));
        }
        (void)kedge_pending(context);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Statistics(context).checkpoints, 60u);
}

TEST_P(ProcessTest, CallBacksMayNotCallBack) {
  kedge_context* context = Open();
  kedge_object object{};
  object.struct_size = sizeof object;
  object.user = context;
  object.size = [](void* user, size_t* bytes) {
    *bytes = 0;
    return kedge_clear(static_cast<kedge_context*>(user)) == KEDGE_ERROR_FAILED_PRECONDITION ? 0 : 1;
  };
  object.serialize = [](void*, kedge_writer*) { return 0; };
  object.deserialize = [](void*, kedge_reader*, size_t) { return 0; };
  ASSERT_KEDGE_OK(kedge_protect_object(context, 0, nullptr, &object));
  EXPECT_KEDGE_OK(kedge_checkpoint(context, "x", 1, 0));
}

TEST_P(ProcessTest, RoutedFilesEndAtTheirPathsAndComeBack) {
  kedge_context* context = Open();
  const std::string original = folder_.path() + "/output.h5";
  const std::string content(2500000, 'q');
  int step = 3;
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &step, 1, sizeof step, nullptr));
  char routed[1024];
  EXPECT_EQ(kedge_route_file(context, original.c_str(), routed, sizeof routed), KEDGE_ERROR_FAILED_PRECONDITION);
  ASSERT_KEDGE_OK(kedge_checkpoint_begin(context, "files", 1, 0));
  EXPECT_EQ(kedge_route_file(context, original.c_str(), routed, 10), KEDGE_ERROR_INVALID_ARGUMENT);
  ASSERT_KEDGE_OK(kedge_route_file(context, original.c_str(), routed, sizeof routed));
  EXPECT_EQ(std::filesystem::path(routed).filename(), "output.h5");
  std::ofstream(routed) << content;
  // More than the agent's umask would leave.
  const auto bits = std::filesystem::perms(0664);
  std::filesystem::permissions(routed, bits);
  ASSERT_KEDGE_OK(kedge_checkpoint_part(context, KEDGE_ALL, nullptr, 0));
  ASSERT_KEDGE_OK(kedge_checkpoint_end(context, 1));
  EXPECT_FALSE(std::filesystem::exists(routed)) << "the local file is captured, and goes";
  ASSERT_KEDGE_OK(kedge_wait(context, "files", 1, KEDGE_LEVEL_STORE, 60));
  for (int i = 0; i < 500 && !std::filesystem::exists(original); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::ifstream published(original);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(published), {}), content);
  EXPECT_EQ(std::filesystem::status(original).permissions(), bits);

  std::filesystem::remove(original);
  ASSERT_KEDGE_OK(kedge_restart_begin(context, "files", 1));
  ASSERT_KEDGE_OK(kedge_route_file(context, original.c_str(), routed, sizeof routed));
  std::ifstream restored(routed);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(restored), {}), content);
  EXPECT_EQ(std::filesystem::status(routed).permissions(), bits);
  EXPECT_EQ(kedge_route_file(context, (original + "x").c_str(), routed, sizeof routed), KEDGE_ERROR_NOT_FOUND);
  ASSERT_KEDGE_OK(kedge_restart_end(context, 1));

  ASSERT_KEDGE_OK(kedge_checkpoint_begin(context, "files", 2, 0));
  ASSERT_KEDGE_OK(kedge_route_file(context, original.c_str(), routed, sizeof routed));
  EXPECT_EQ(kedge_checkpoint_end(context, 1), KEDGE_ERROR_NOT_FOUND) << "routed, never written";
  EXPECT_THAT(kedge_error_message(), HasSubstr(original));
}

// Beside those of this process lie those of a process of this PID namespace that is gone, of one of another namespace, and of one
// that does not say which.
TEST_P(ProcessTest, OnlyRoutedFilesOfProcessesThatAreCertainlyGoneAreRemoved) {
  struct stat pid_namespace {};
  ASSERT_EQ(stat("/proc/self/ns/pid", &pid_namespace), 0);
  const std::string files = folder_.run_folder() + "/files/";
  const std::string gone = files + std::to_string(getpid()) + "-1-" + std::to_string(pid_namespace.st_ino) + "-00000000";
  const std::string elsewhere = files + std::to_string(getpid()) + "-1-" + std::to_string(pid_namespace.st_ino + 1) + "-00000000";
  const std::string unknown = files + std::to_string(getpid()) + "-1-00000000";
  for (const std::string& folder : {gone, elsewhere, unknown}) std::filesystem::create_directories(folder + "/1");
  for (const std::string& folder : {files, folder_.run_folder() + "/"})
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  Open();
  EXPECT_FALSE(std::filesystem::exists(gone));
  EXPECT_TRUE(std::filesystem::exists(elsewhere + "/1"));
  EXPECT_TRUE(std::filesystem::exists(unknown + "/1"));
}

class AgentLossTest : public ApiTest {};
INSTANTIATE_TEST_SUITE_P(Modes, AgentLossTest, ::testing::Values(kAgent), ModeName);

// The agent dies when the file is written beside its path, and has not its name yet: the successor puts it there.
TEST_P(AgentLossTest, ARoutedFileHalfPublishedIsPublishedByTheSuccessor) {
  ASSERT_EQ(setenv("KEDGE_TEST_KILL_POINT", "file-written", 1), 0);
  kedge_context* context = Open();
  ASSERT_EQ(unsetenv("KEDGE_TEST_KILL_POINT"), 0);  // for the successor
  const std::string results = folder_.path() + "/results";
  ASSERT_TRUE(std::filesystem::create_directory(results));
  char routed[1024];
  ASSERT_KEDGE_OK(kedge_checkpoint_begin(context, "files", 1, 0));
  ASSERT_KEDGE_OK(kedge_route_file(context, (results + "/output.h5").c_str(), routed, sizeof routed));
  std::ofstream(routed) << "content";
  ASSERT_KEDGE_OK(kedge_checkpoint_end(context, 1));
  ASSERT_KEDGE_OK(kedge_wait(context, "files", 1, KEDGE_LEVEL_STORE, 60));
  // Without an agent the client sees in the store that the version is complete, which the file is not part of.
  EXPECT_TRUE(Appears(results + "/output.h5"));
  std::ifstream published(results + "/output.h5");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(published), {}), "content");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(results), {}), 1) << "something half written is left there";
}

// Each call finds its agent dead. SIGPIPE has its default action here, and would end the test.
TEST_P(AgentLossTest, EveryCallSurvivesTheAgent) {
  kedge_context* context = Open();
  std::vector<char> data(3000000, 'a');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "l", 1, 0));
  ASSERT_TRUE(folder_.KillAgent());
  EXPECT_KEDGE_OK(kedge_wait(context, "l", 1, KEDGE_LEVEL_STORE, 60));
  ASSERT_TRUE(folder_.KillAgent());
  EXPECT_KEDGE_OK(kedge_checkpoint(context, "l", 2, 0));
  folder_.KillAgent();
  EXPECT_KEDGE_OK(kedge_restart(context, "l", -1, nullptr));
  folder_.KillAgent();
  ASSERT_KEDGE_OK(kedge_checkpoint_begin(context, "l", 3, 0));
  folder_.KillAgent();
  ASSERT_KEDGE_OK(kedge_checkpoint_part(context, KEDGE_ALL, nullptr, 0));
  folder_.KillAgent();
  ASSERT_KEDGE_OK(kedge_checkpoint_end(context, 1));
  folder_.KillAgent();
  kedge_level level = KEDGE_LEVEL_NONE;
  EXPECT_KEDGE_OK(kedge_test(context, "l", 3, &level));
  int64_t version = 0;
  EXPECT_KEDGE_OK(kedge_newest(context, "l", -1, &version));
  folder_.KillAgent();
  Close(context, 1);
  context = Open();
  EXPECT_KEDGE_OK(kedge_newest(context, "l", -1, &version));
  EXPECT_EQ(version, 3);
}

// However far its loss and its successor have got by then: a caller that hears of no version begins anew.
TEST_P(AgentLossTest, WhatOnlyTheNodeHasIsHeardOfFromTheSuccessor) {
  kedge_context* context = Open("schedule.store=0\n");
  int value = 5;
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &value, 1, sizeof value, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "n", 1, 0));
  ASSERT_KEDGE_OK(kedge_wait(context, "n", 1, KEDGE_LEVEL_LOCAL, 60));
  for (const int pause_ms : {0, 5, 40, 300}) {
    ASSERT_TRUE(folder_.KillAgent());
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    int64_t version = 0;
    EXPECT_KEDGE_OK(kedge_newest(context, "n", -1, &version));
    EXPECT_EQ(version, 1);
    ASSERT_TRUE(folder_.KillAgent());
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    value = 0;
    EXPECT_KEDGE_OK(kedge_restart(context, "n", -1, nullptr));
    EXPECT_EQ(value, 5);
  }
}

// However far its loss and its successor have got by then: what lies in the pool is not given up.
TEST_P(AgentLossTest, AnEndIsHeardByTheSuccessor) {
  kedge_context* context = Open();
  std::vector<char> data(3000000, 'a');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
  int64_t version = 0;
  for (const int pause_ms : {0, 2, 5, 10, 20, 40, 80, 300}) {
    // The version before may have got to the store without it.
    for (int i = 0; i < 1000 && folder_.AgentPid() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_KEDGE_OK(kedge_checkpoint_begin(context, "l", ++version, 0));
    ASSERT_KEDGE_OK(kedge_checkpoint_part(context, KEDGE_ALL, nullptr, 0));
    ASSERT_TRUE(folder_.KillAgent());
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    ASSERT_KEDGE_OK(kedge_checkpoint_end(context, 1));
    ASSERT_KEDGE_OK(kedge_wait(context, "l", version, KEDGE_LEVEL_STORE, 60));
  }
  Close(context, 1);
}

TEST_P(AgentLossTest, SlotsThatAreHeldOverALossGoBackWithTheImagesEnd) {
  kedge_context* context = Open("pool.size=5MiB\nchunk.size=1MiB\nflush.rate=1MiB\n");
  std::vector<std::vector<char>> regions(3, std::vector<char>(1 << 20, 'a'));
  for (int id = 0; id < 3; ++id) {
    ASSERT_KEDGE_OK(kedge_protect(context, id, regions[static_cast<size_t>(id)].data(), 1 << 20, 1, nullptr));
  }
  ASSERT_KEDGE_OK(kedge_checkpoint_begin(context, "s", 1, 0));
  const int held[] = {0, 1};
  ASSERT_KEDGE_OK(kedge_checkpoint_part(context, KEDGE_SOME, held, 2));
  ASSERT_TRUE(folder_.KillAgent());
  ASSERT_KEDGE_OK(kedge_checkpoint_part(context, KEDGE_REST, nullptr, 0));
  ASSERT_KEDGE_OK(kedge_checkpoint_end(context, 1));
  ASSERT_KEDGE_OK(kedge_wait(context, "s", 1, KEDGE_LEVEL_STORE, 60));
  const double waited = Statistics(context).slot_wait_seconds;
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", 2, 0));
  EXPECT_LT(Statistics(context).slot_wait_seconds - waited, 0.5) << "it waited until a chunk of its own had been flushed";
  Close(context, 1);
}

// The call holds the context all the while: each death must be seen without it.
TEST_P(AgentLossTest, TwoDeathsWhileOneCallWaitsForASlot) {
  kedge_context* context = Open("pool.size=16MiB\nflush.rate=3MiB\n");
  std::vector<char> data(12 << 20, 'a');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "w", 1, 0));
  std::thread killer([this] {
    for (int death = 0; death < 2; ++death) {
      const int agent = folder_.AgentPid();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      EXPECT_TRUE(folder_.KillAgent());
      const auto successor_runs = [&] { return folder_.AgentPid() != 0 && folder_.AgentPid() != agent; };
      for (int i = 0; i < 1000 && !successor_runs(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_TRUE(successor_runs()) << "after death " << death + 1;
    }
  });
  std::fill(data.begin(), data.end(), 'b');
  EXPECT_KEDGE_OK(kedge_checkpoint(context, "w", 2, 0));
  killer.join();
  EXPECT_EQ(Statistics(context).checkpoints_inline, 0u) << "no slot was had before the timeout";
  EXPECT_GT(Statistics(context).slot_wait_seconds, 1.0) << "it did not wait, and this test shows nothing";
  EXPECT_KEDGE_OK(kedge_wait(context, "w", 2, KEDGE_LEVEL_STORE, 60));
}

// The ranks of a node come at once.
TEST_P(AgentLossTest, OneOfManyProcessesStartsTheAgent) {
  const std::string starts = folder_.path() + "/starts", program = folder_.path() + "/agent";
  const std::string agent = std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/../bin/kedge-agent";
  std::ofstream(program) << "#!/bin/sh\necho started >> " << starts << "\nexec " << agent << " \"$@\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    setenv("KEDGE_AGENT", program.c_str(), 1);
    kedge_context* context = Open("job.name=one" + std::to_string(i) + "\n");
    _exit(context != nullptr && Statistics(context).checkpoints_inline == 0 && kedge_finalize(context, 0) == KEDGE_OK ? 0 : 1);
  }
  for (const pid_t child : children) EXPECT_EQ(ExitCodeOf(child), 0);
  std::ifstream lines(starts);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(lines), {}), "started\n");
}

TEST_P(AgentLossTest, WithoutAnyAgentItIsSynchronous) {
  setenv("KEDGE_AGENT", "/bin/false", 1);
  kedge_context* context = Open();
  int value = 1;
  EXPECT_KEDGE_OK(kedge_protect(context, 0, &value, 1, sizeof value, nullptr));
  EXPECT_KEDGE_OK(kedge_checkpoint(context, "x", 1, 0));
  unsetenv("KEDGE_AGENT");
  EXPECT_EQ(Statistics(context).checkpoints_inline, 1u);
  EXPECT_KEDGE_OK(kedge_wait(context, "x", 1, KEDGE_LEVEL_STORE, 0));
}

// The newest version needs no agent any more; the one before does.
TEST_P(AgentLossTest, FinalizeWaitsForTheSuccessorOfAnAgentThatHasMoreToCarryOn) {
  kedge_context* context = Open("flush.rate=8MiB\nkeep.versions=100\n");
  std::vector<char> data(12 << 20, 'a');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "f", 1, 0));
  setenv("KEDGE_AGENT", "/bin/false", 1);
  ASSERT_TRUE(folder_.KillAgent());
  for (int64_t next = 2; Statistics(context).checkpoints_inline == 0; ++next) {
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "f", next, 0));
  }
  unsetenv("KEDGE_AGENT");
  Close(context, 1);
  int64_t version = 0;
  EXPECT_KEDGE_OK(kedge_newest(Open("job.mode=sync\n"), "f", 1, &version));
  EXPECT_EQ(version, 1) << "the image that the dead agent held is not in the store";
}

// The pool is deleted: what was captured there goes to the store from what the agent holds open, while the rank goes on in a
// new session, or, in the gap between the two, without one.
TEST_P(AgentLossTest, ASessionThatIsReplacedHidesNoFlush) {
  kedge_context* context = Open("flush.rate=4MiB\nschedule.store=2\n");
  std::vector<char> data(24 << 20, 'a');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "f", 1, 0));
  EXPECT_EQ(kedge_pending(context), KEDGE_ERROR_BUSY);
  const std::string pool = folder_.run_folder() + "/pool/pool";
  ASSERT_TRUE(std::filesystem::remove(pool));
  ASSERT_TRUE(Appears(pool)) << "nobody noticed";
  // What the session before takes until it is replaced goes to the store, behind version 1.
  ASSERT_TRUE(Appears(folder_.run_folder() + "/sessions/2")) << "it is not replaced";
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), 1000, 1, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "f", 2, 0));
  EXPECT_KEDGE_OK(kedge_wait(context, "f", 2, KEDGE_LEVEL_LOCAL, 60));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(kedge_pending(context), KEDGE_ERROR_BUSY) << "version 1 is on its way";
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_KEDGE_OK(kedge_wait(context, "f", 1, KEDGE_LEVEL_STORE, 60));
  int code = KEDGE_ERROR_BUSY;
  for (int i = 0; i < 100 && code != KEDGE_OK; ++i) {
    code = kedge_pending(context);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_KEDGE_OK(code);
}

// The successor knows nothing of an image that went with the agent and its pool, and waits for nothing. Once the application has
// gone on from another version, nobody misses it.
TEST_P(AgentLossTest, AnEndSaysWhatWasLostWithAgentAndPool) {
  for (const bool goes_back : {false, true}) {
    kedge_context* context = Open("flush.rate=4MiB\n");
    std::vector<char> data(24 << 20, 'a');
    ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), 1000, 1, nullptr));
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "f", 1, KEDGE_OVERWRITE));
    ASSERT_KEDGE_OK(kedge_wait(context, "f", 1, KEDGE_LEVEL_STORE, 60));
    ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "f", 2, 0));
    ASSERT_KEDGE_OK(kedge_wait(context, "f", 2, KEDGE_LEVEL_LOCAL, 60));
    ASSERT_TRUE(std::filesystem::remove(folder_.run_folder() + "/pool/pool"));
    ASSERT_TRUE(folder_.KillAgent());
    if (goes_back) {
      ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), 1000, 1, nullptr));
      ASSERT_KEDGE_OK(kedge_restart(context, "f", 1, nullptr));
    }
    Close(context, 1, goes_back ? KEDGE_OK : KEDGE_ERROR_LOST);
  }
}

TEST_P(AgentLossTest, AnAbandonedCheckpointHidesNoFlush) {
  kedge_context* context = Open("flush.rate=8MiB\n");
  std::vector<char> data(12 << 20, 'a');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
  for (int64_t version = 1; version <= 2; ++version) {
    ASSERT_KEDGE_OK(kedge_checkpoint_begin(context, "f", version, 0));
    ASSERT_KEDGE_OK(kedge_checkpoint_part(context, KEDGE_ALL, nullptr, 0));
    ASSERT_KEDGE_OK(kedge_checkpoint_end(context, 0));
    EXPECT_KEDGE_OK(kedge_pending(context)) << "what is abandoned goes nowhere";
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "f", version, 0));
    EXPECT_EQ(kedge_pending(context), KEDGE_ERROR_BUSY);
    ASSERT_KEDGE_OK(kedge_wait(context, "f", version, KEDGE_LEVEL_STORE, 60));
    EXPECT_KEDGE_OK(kedge_pending(context));
  }
}

TEST_P(AgentLossTest, AnImageGreaterThanThePoolPassesThroughIt) {
  kedge_context* context = Open();
  std::vector<char> data(150 << 20, 'z');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "big", 1, 0));
  ASSERT_KEDGE_OK(kedge_wait(context, "big", 1, KEDGE_LEVEL_STORE, 120));
  std::fill(data.begin(), data.end(), ' ');
  ASSERT_KEDGE_OK(kedge_restart(context, "big", -1, nullptr));
  EXPECT_EQ(std::count(data.begin(), data.end(), 'z'), static_cast<ptrdiff_t>(data.size()));
  EXPECT_EQ(Statistics(context).bytes_pool, data.size());
  EXPECT_EQ(Statistics(context).bytes_through, 0u) << "a chunk that is flushed makes room for the next";
}

// A step counter before the data, as programs have it, is a small chunk that the agent first hears of at the image's end.
TEST_P(AgentLossTest, ItPassesThroughThePoolAlsoAfterASmallRegion) {
  kedge_context* context = Open();
  int step = 7;
  std::vector<char> data(150 << 20, 'z');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &step, 1, sizeof step, nullptr));
  ASSERT_KEDGE_OK(kedge_protect(context, 1, data.data(), data.size(), 1, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "big", 1, 0));
  EXPECT_EQ(Statistics(context).bytes_through, 0u) << "nothing was flushed before the image had ended";
  ASSERT_KEDGE_OK(kedge_wait(context, "big", 1, KEDGE_LEVEL_STORE, 120));
  std::fill(data.begin(), data.end(), ' ');
  step = 0;
  ASSERT_KEDGE_OK(kedge_restart(context, "big", -1, nullptr));
  EXPECT_EQ(step, 7);
  EXPECT_EQ(std::count(data.begin(), data.end(), 'z'), static_cast<ptrdiff_t>(data.size()));
}

// No flush frees room, for this version is not to get to the store: what finds none goes there all the same, piecewise.
TEST_P(AgentLossTest, AVersionForTheNodeAloneThatIsGreaterThanThePool) {
  kedge_context* context = Open("pool.size=16MiB\nschedule.store=100\n");
  std::vector<char> data(40 << 20, 'a');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
  for (int64_t version = 1; version <= 4; ++version) {
    std::fill(data.begin(), data.end(), static_cast<char>('a' + version));
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "big", version, 0));
    ASSERT_KEDGE_OK(kedge_wait(context, "big", version, KEDGE_LEVEL_LAST, 60));
  }
  EXPECT_GT(Statistics(context).bytes_through, 0u) << "it had room, and this test shows nothing";
  std::fill(data.begin(), data.end(), ' ');
  int64_t version = -1;
  ASSERT_KEDGE_OK(kedge_restart(context, "big", -1, &version));
  EXPECT_EQ(version, 4);
  EXPECT_EQ(std::count(data.begin(), data.end(), 'e'), static_cast<ptrdiff_t>(data.size()));
  // With the copies on the node goes what they had in the store: versions 1, which was to get there, and 4 are left.
  std::vector<std::string> left;
  for (int i = 0; i < 200 && left.size() != 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    left.clear();
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/store/jobs/api/names/big")) {
      if (entry.is_directory()) left.push_back(entry.path().filename());
    }
  }
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("1-1-1", "4-1-4"));
}

// What had left its slot lies in an object that dies with the agent: nobody has it any more, but the application.
class PassingThroughTest : public AgentLossTest {
 protected:
  // With an agent that dies once it has given the third slot of an image to others.
  kedge_context* OpenWithDyingAgent() {
    setenv("KEDGE_TEST_KILL_POINT", "chunk-released:3", 1);
    kedge_context* context = Open("pool.size=16MiB\n");
    unsetenv("KEDGE_TEST_KILL_POINT");
    agent_ = folder_.AgentPid();
    return context;
  }
  ~PassingThroughTest() override { EXPECT_NE(folder_.AgentPid(), agent_) << "it was to die, and this test shows nothing"; }

  int agent_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Modes, PassingThroughTest, ::testing::Values(kAgent), ModeName);

TEST_P(PassingThroughTest, TheImageIsTakenAgain) {
  kedge_context* context = OpenWithDyingAgent();
  std::vector<char> data(40 << 20, 'a');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "big", 1, 0));
  EXPECT_EQ(Statistics(context).checkpoints_inline, 1u);
  EXPECT_LT(Statistics(context).slot_wait_seconds, 10) << "it waited for what cannot come back";
  EXPECT_KEDGE_OK(kedge_wait(context, "big", 1, KEDGE_LEVEL_STORE, 60));
  std::fill(data.begin(), data.end(), ' ');
  ASSERT_KEDGE_OK(kedge_restart(context, "big", -1, nullptr));
  EXPECT_EQ(std::count(data.begin(), data.end(), 'a'), static_cast<ptrdiff_t>(data.size()));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "big", 2, 0));
  EXPECT_EQ(Statistics(context).checkpoints_inline, 1u) << "the next one is asynchronous";
  EXPECT_KEDGE_OK(kedge_wait(context, "big", 2, KEDGE_LEVEL_STORE, 60));
}

// The application may have changed since what an earlier part has captured.
TEST_P(PassingThroughTest, PartsCannotBeTakenAgain) {
  kedge_context* context = OpenWithDyingAgent();
  std::vector<char> first(12 << 20, 'a'), second(24 << 20, 'b');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, first.data(), first.size(), 1, nullptr));
  ASSERT_KEDGE_OK(kedge_protect(context, 1, second.data(), second.size(), 1, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint_begin(context, "big", 1, 0));
  const int id = 0;
  ASSERT_KEDGE_OK(kedge_checkpoint_part(context, KEDGE_SOME, &id, 1));
  EXPECT_EQ(kedge_checkpoint_part(context, KEDGE_REST, nullptr, 0), KEDGE_ERROR_UNAVAILABLE);
  EXPECT_THAT(kedge_error_message(), HasSubstr("its successor does not have"));
  EXPECT_EQ(kedge_checkpoint_end(context, 1), KEDGE_ERROR_FAILED_PRECONDITION) << "it is abandoned";
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "big", 2, 0));
  EXPECT_KEDGE_OK(kedge_wait(context, "big", 2, KEDGE_LEVEL_STORE, 60));
}

// It had been handed over whole. Whether the agent had taken it from the mailbox when it died makes no difference.
TEST_P(AgentLossTest, AnEndedImageThatWentWithTheAgentIsReported) {
  for (const int pause_ms : {0, 200}) {
    const std::string overrides = Overrides("pool.size=16MiB\nflush.rate=12MiB\nreduce.incremental=off\n");
    kedge_options options = KEDGE_OPTIONS_INIT;
    options.overrides = overrides.c_str();
    kedge_context* context = nullptr;
    ASSERT_KEDGE_OK(kedge_init(&options, nullptr, &context));
    std::vector<char> data(20 << 20, 'a');
    ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "e", pause_ms, 0));
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    ASSERT_TRUE(folder_.KillAgent());
    EXPECT_THAT(kedge_wait(context, "e", pause_ms, KEDGE_LEVEL_STORE, 20), AnyOf(KEDGE_ERROR_IO, KEDGE_ERROR_INVALID_ARGUMENT));
    EXPECT_THAT(kedge_error_message(), HasSubstr("chunk"));
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "e", pause_ms + 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "e", pause_ms + 1, KEDGE_LEVEL_STORE, 20));
    EXPECT_NE(kedge_finalize(context, 1), KEDGE_OK) << "it names what it did not get through";
    ASSERT_TRUE(folder_.KillAgent());
  }
}

}  // namespace
}  // namespace kedge::testing
