// A store that is full, over quota, broken or read only while an application runs: through the agent, without one, and with
// an agent that has no tier. The checkpoint or its wait fails with errno and path, the application goes on, older versions
// stay, and the next one works once the store does. Also a tier that is full.
//
// Application and agent are linked with a file system whose faults this test steers (os/testing/steering.h).
#include <gmock/gmock.h>

#include <barrier>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/client/api_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/steered_agents.h"
#include "tests/support/thread_ranks.h"

namespace kedge::testing {
namespace {

using os::testing::Call;
using os::testing::CallSet;
using os::testing::CallsOf;
using ::testing::HasSubstr;

struct Fault {
  const char* name;
  CallSet calls;
  int errno_value;
  kedge_status status;
  const char* below = "";  // of the store: where alone
};
const Fault kFaults[] = {
    {"Full", CallsOf(Call::kPwrite, Call::kFallocate), ENOSPC, KEDGE_ERROR_NO_SPACE},
    {"NoInodes", CallsOf(Call::kMkdir, Call::kLink), ENOSPC, KEDGE_ERROR_NO_SPACE},
    {"OverQuota", CallsOf(Call::kPwrite), EDQUOT, KEDGE_ERROR_NO_SPACE},
    {"Broken", CallsOf(Call::kPwrite), EIO, KEDGE_ERROR_IO},
    {"FailedSync", CallsOf(Call::kFsync, Call::kFdatasync), EIO, KEDGE_ERROR_IO},
    {"FailedSyncOfTheData", CallsOf(Call::kFsync, Call::kFdatasync), EIO, KEDGE_ERROR_IO, "/data/r0."},
    {"FailedClose", CallsOf(Call::kClose), EDQUOT, KEDGE_ERROR_NO_SPACE},
    {"FailedCloseOfTheData", CallsOf(Call::kClose), EDQUOT, KEDGE_ERROR_NO_SPACE, "/data/r0."},
    {"ReadOnly", os::testing::kChangingCalls, EROFS, KEDGE_ERROR_PERMISSION},
};
constexpr Mode kTierless{"Tierless", "pool.size=0\n"};

constexpr size_t kBytes = 3000000;
// What a look for a newer attempt has found does not count any longer.
constexpr auto kLookIsOld = std::chrono::milliseconds(300);

class StoreFaultTest : public ApiTest {
 protected:
  void FailBelow(const std::string& path, CallSet calls, int errno_value) const { agents_.Fail(path, calls, errno_value); }
  // A newer attempt has begun, by what the store says.
  void TakeOver() const {
    const std::string attempts = folder_.store() + "/jobs/api/attempts/";
    std::filesystem::copy_file(attempts + "1", attempts + "2");
  }
  static std::string Content(int64_t version) { return std::string(kBytes, static_cast<char>('a' + version % 26)); }
  // Takes the version and waits for the store; the first error.
  int Take(kedge_context* context, int64_t version) {
    data_ = Content(version);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, data_.data(), data_.size(), 1, nullptr));
    const int code = kedge_checkpoint(context, "s", version, 0);
    return code != KEDGE_OK ? code : kedge_wait(context, "s", version, KEDGE_LEVEL_STORE, 60);
  }
  void ExpectRestart(kedge_context* context, int64_t expected) {
    data_ = std::string(kBytes, ' ');
    EXPECT_KEDGE_OK(kedge_protect(context, 0, data_.data(), data_.size(), 1, nullptr));
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "s", -1, &version));
    EXPECT_EQ(version, expected);
    EXPECT_TRUE(data_ == Content(expected));
  }
  static void ExpectInStore(kedge_context* context, int64_t version) {
    kedge_level level = KEDGE_LEVEL_NONE;
    EXPECT_KEDGE_OK(kedge_test(context, "s", version, &level));
    EXPECT_EQ(level, KEDGE_LEVEL_STORE);
  }

  const SteeredAgents agents_{std::filesystem::temp_directory_path() / ("kedge-test-steering-" + std::to_string(getpid()))};
  std::string data_;
};
INSTANTIATE_TEST_SUITE_P(Modes, StoreFaultTest, ::testing::Values(kInline, kAgent, kTierless), ModeName);

TEST_P(StoreFaultTest, IsReportedAndTheNextCheckpointWorksOnceItIsOver) {
  kedge_context* context = Open();
  const bool has_local_copies = GetParam().name == kAgent.name;
  int64_t version = 1;
  ASSERT_EQ(Take(context, version), KEDGE_OK) << kedge_error_message();
  for (const Fault& fault : kFaults) {
    SCOPED_TRACE(fault.name);
    FailBelow(*fault.below == '\0' ? folder_.store() : fault.below, fault.calls, fault.errno_value);
    EXPECT_EQ(Take(context, version + 1), fault.status) << kedge_error_message();
    EXPECT_THAT(kedge_error_message(), HasSubstr(std::strerror(fault.errno_value)));
    EXPECT_THAT(kedge_error_message(), HasSubstr(folder_.store()));
    EXPECT_EQ(kedge_last_flush_error(context, nullptr, 0, nullptr), has_local_copies ? fault.status : KEDGE_OK);
    ExpectInStore(context, version);
    ExpectRestart(context, has_local_copies ? version + 1 : version);
    agents_.Mend();
    version += 2;
    ASSERT_EQ(Take(context, version), KEDGE_OK) << kedge_error_message();
  }
  // What the store holds is whole.
  Close(context, 0);
  folder_.KillAgent();
  std::filesystem::remove_all(folder_.run_folder());
  ExpectRestart(Open(), version);
}

// Through the agent the version waits for it; without one, the checkpoint says that it is not there.
TEST_P(StoreFaultTest, MovedAwayItIsNotMadeAnew) {
  kedge_context* context = Open();
  ASSERT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  const std::string away = folder_.store() + ".away";
  std::filesystem::rename(folder_.store(), away);
  data_ = Content(2);
  EXPECT_KEDGE_OK(kedge_protect(context, 0, data_.data(), data_.size(), 1, nullptr));
  const int code = kedge_checkpoint(context, "s", 2, 0);
  if (GetParam().name == kAgent.name) {
    EXPECT_EQ(code, KEDGE_OK) << kedge_error_message();
    EXPECT_EQ(kedge_wait(context, "s", 2, KEDGE_LEVEL_BUFFER, 1), KEDGE_ERROR_TIMEOUT) << "no burst buffer lies before the store";
    EXPECT_EQ(kedge_wait(context, "s", 2, KEDGE_LEVEL_STORE, 1), KEDGE_ERROR_TIMEOUT) << kedge_error_message();
  } else {
    EXPECT_EQ(code, KEDGE_ERROR_UNAVAILABLE) << kedge_error_message();
  }
  EXPECT_THAT(kedge_error_message(), HasSubstr(folder_.store()));
  EXPECT_FALSE(std::filesystem::exists(folder_.store()));
  std::filesystem::rename(away, folder_.store());
  if (GetParam().name == kAgent.name) {
    EXPECT_KEDGE_OK(kedge_wait(context, "s", 2, KEDGE_LEVEL_STORE, 60));
  }
  ASSERT_EQ(Take(context, 3), KEDGE_OK) << kedge_error_message();
  ExpectRestart(context, 3);
}

// Two ranks that share a store, which rank 1 sees under another path: so it alone can be failed there.
class OneRankFaultTest : public StoreFaultTest {
 protected:
  OneRankFaultTest() { std::filesystem::create_directory_symlink(folder_.store(), OtherPath()); }
  std::string OtherPath() const { return folder_.path() + "/other-path"; }
  void FailRankOne() const { FailBelow(OtherPath(), os::testing::kEveryCall, EIO); }
  auto OverridesOf(const std::string& more = "") {
    return [this, more](int rank) { return Overrides((rank == 1 ? "store.path=" + OtherPath() + "\n" : "") + more); };
  }
  static std::string Content(int rank, const std::string& taking) {
    return std::string(500, static_cast<char>('a' + rank)) + taking;
  }
  static int Checkpoint(kedge_context* context, std::string content, int64_t version, unsigned flags = 0) {
    EXPECT_KEDGE_OK(kedge_protect(context, 0, content.data(), content.size(), 1, nullptr));
    return kedge_checkpoint(context, "s", version, flags);
  }
  // From the store alone.
  void ExpectRestart(int64_t expected, const std::string& taking) {
    folder_.KillAgent();
    std::filesystem::remove_all(folder_.run_folder());
    ThreadRanks(2).Run(OverridesOf(), [&](kedge_context* context, int rank) {
      std::string memory(Content(rank, taking).size(), ' ');
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 1, nullptr));
      int64_t version = -1;
      EXPECT_KEDGE_OK(kedge_restart(context, "s", -1, &version));
      EXPECT_EQ(version, expected);
      EXPECT_EQ(memory, Content(rank, taking));
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, OneRankFaultTest, ::testing::Values(kInline, kAgent), ModeName);

// Rank 1's first call fails on the store, or has a warning of it where an agent takes the image; both take the version again.
TEST_P(OneRankFaultTest, ItsRetakenVersionIsOfOneTaking) {
  std::barrier together(2);
  ThreadRanks(2).Run(OverridesOf(), [&](kedge_context* context, int rank) {
    if (rank == 0) {
      EXPECT_KEDGE_OK(Checkpoint(context, Content(rank, "first"), 1));
    } else {
      FailRankOne();
      const bool is_inline = GetParam().name == kInline.name;
      EXPECT_EQ(Checkpoint(context, Content(rank, "first"), 1), is_inline ? KEDGE_ERROR_IO : KEDGE_OK) << kedge_error_message();
      agents_.Mend();
    }
    together.arrive_and_wait();
    EXPECT_KEDGE_OK(Checkpoint(context, Content(rank, "again"), 1, KEDGE_OVERWRITE));
    EXPECT_KEDGE_OK(kedge_wait(context, "s", 1, KEDGE_LEVEL_STORE, 60));
  });
  ExpectRestart(1, "again");
}

TEST_P(OneRankFaultTest, AllGoOnCountingAlike) {
  std::barrier together(2);
  ThreadRanks(2).Run(OverridesOf("schedule.store=2\n"), [&](kedge_context* context, int rank) {
    if (rank == 1) FailRankOne();
    (void)Checkpoint(context, Content(rank, "1"), 1);
    if (rank == 1) agents_.Mend();
    together.arrive_and_wait();
    for (int64_t version = 2; version <= 5; ++version) {
      EXPECT_KEDGE_OK(Checkpoint(context, Content(rank, std::to_string(version)), version));
    }
    EXPECT_KEDGE_OK(kedge_wait(context, "s", 5, KEDGE_LEVEL_STORE, 20));
  });
  ExpectRestart(5, "5");
}

// Every refusal counts, whatever its reason.
TEST_P(OneRankFaultTest, ACallThatOneRankAloneIsRefusedCounts) {
  ThreadRanks(2).Run(OverridesOf("schedule.store=3\n"), [&](kedge_context* context, int rank) {
    EXPECT_KEDGE_OK(Checkpoint(context, Content(rank, "3"), 3));
    // A version that is not greater, an impossible one, one inside of another.
    EXPECT_EQ(Checkpoint(context, Content(rank, "4"), rank == 0 ? 4 : 3), rank == 0 ? KEDGE_OK : KEDGE_ERROR_ALREADY_EXISTS);
    EXPECT_EQ(Checkpoint(context, Content(rank, "5"), rank == 0 ? -5 : 5), rank == 0 ? KEDGE_ERROR_INVALID_ARGUMENT : KEDGE_OK);
    EXPECT_KEDGE_OK(Checkpoint(context, Content(rank, "6"), 6));
    EXPECT_KEDGE_OK(kedge_wait(context, "s", 6, KEDGE_LEVEL_STORE, 20));
    EXPECT_KEDGE_OK(kedge_checkpoint_begin(context, "s", 7, 0));
    EXPECT_EQ(kedge_checkpoint_begin(context, "s", 8, 0), KEDGE_ERROR_FAILED_PRECONDITION);
    EXPECT_KEDGE_OK(kedge_checkpoint_end(context, 0));
    EXPECT_KEDGE_OK(Checkpoint(context, Content(rank, "9"), 9));
    EXPECT_KEDGE_OK(kedge_wait(context, "s", 9, KEDGE_LEVEL_STORE, 20));
    while (kedge_last_flush_error(context, nullptr, 0, nullptr) != KEDGE_OK) continue;
  });
  ExpectRestart(9, "9");
}

class NodesFirstTest : public OneRankFaultTest {};
INSTANTIATE_TEST_SUITE_P(Modes, NodesFirstTest, ::testing::Values(kAgent), ModeName);

// What the nodes have comes back without a look into any generation in the store. Both ranks are in this process.
TEST_P(NodesFirstTest, ARestartThatTheNodesServeLooksIntoNoGenerationInTheStore) {
  std::barrier together(2);
  uint64_t faults = 0;
  // Takes versions 1 to 3, where there is none; then the newest is asked for and restored, as no generation can be looked into.
  const auto launch = [&](bool takes, int expected) {
    ThreadRanks(2).Run(OverridesOf("keep.versions=3\n"), [&](kedge_context* context, int rank) {
      std::string memory = Content(rank, "0");
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 1, nullptr));
      for (int64_t version = 1; takes && version <= 3; ++version) {
        memory.back() = static_cast<char>('0' + version);
        EXPECT_KEDGE_OK(kedge_checkpoint(context, "s", version, 0));
        EXPECT_KEDGE_OK(kedge_wait(context, "s", version, KEDGE_LEVEL_STORE, 60));
      }
      together.arrive_and_wait();
      if (rank == 0) {
        std::vector<os::testing::FaultRule> rules;
        for (const char* folder : {"/names/s/1-1-1", "/names/s/2-1-2", "/names/s/3-1-3"})
          rules.push_back({.path_contains = folder, .errno_value = EIO});
        agents_.Steer(rules);
        faults = os::testing::SteeredFaults();
      }
      together.arrive_and_wait();
      int64_t version = -1;
      EXPECT_EQ(kedge_newest(context, "s", -1, &version), expected) << kedge_error_message();
      EXPECT_EQ(kedge_restart(context, "s", -1, &version), expected) << kedge_error_message();
      if (expected == KEDGE_OK) {
        EXPECT_EQ(version, 3);
        EXPECT_EQ(memory, Content(rank, "3"));
      }
      together.arrive_and_wait();
      if (rank == 0) {
        faults = os::testing::SteeredFaults() - faults;
        agents_.Mend();
      }
      together.arrive_and_wait();
    });
  };
  launch(/*takes=*/true, KEDGE_OK);
  EXPECT_EQ(faults, 0u);
  launch(/*takes=*/false, KEDGE_OK);
  EXPECT_EQ(faults, 0u) << "in another attempt";
  folder_.KillAgent();
  std::filesystem::remove_all(folder_.run_folder());
  launch(/*takes=*/false, KEDGE_ERROR_IO);
  EXPECT_GT(faults, 0u) << "without the nodes it must";
}

// Rank 0 looks for all: what another rank sees of the store does not matter where it needs no bytes of it.
TEST_P(OneRankFaultTest, OnlyRankZeroLooksForVersions) {
  ThreadRanks(2).Run(OverridesOf(), [&](kedge_context* context, int rank) {
    EXPECT_KEDGE_OK(Checkpoint(context, Content(rank, "1"), 1));
    EXPECT_KEDGE_OK(kedge_wait(context, "s", 1, KEDGE_LEVEL_STORE, 60));
  });
  folder_.KillAgent();
  std::filesystem::remove_all(folder_.run_folder());
  std::barrier together(2);
  ThreadRanks(2).Run(OverridesOf(), [&](kedge_context* context, int rank) {
    if (rank == 1) FailRankOne();
    together.arrive_and_wait();
    int64_t newest = -1;
    EXPECT_KEDGE_OK(kedge_newest(context, "s", -1, &newest));
    EXPECT_EQ(newest, 1);
    together.arrive_and_wait();
    if (rank == 1) FailBelow(OtherPath(), CallsOf(Call::kList), EIO);
    together.arrive_and_wait();
    std::string memory(Content(rank, "1").size(), ' ');
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 1, nullptr));
    EXPECT_KEDGE_OK(kedge_restart(context, "s", -1, nullptr)) << "its bytes it reads without a listing";
    EXPECT_EQ(memory, Content(rank, "1"));
    together.arrive_and_wait();
    if (rank == 1) FailBelow(folder_.store(), os::testing::kEveryCall, EIO);
    together.arrive_and_wait();
    EXPECT_EQ(kedge_newest(context, "s", -1, &newest), KEDGE_ERROR_IO);
    EXPECT_THAT(kedge_error_message(), HasSubstr("rank 0"));
    together.arrive_and_wait();
    if (rank == 1) agents_.Mend();
    together.arrive_and_wait();
  });
}

// All is done, and yet nobody can tell whether the store has it still.
TEST_P(StoreFaultTest, TheLastCallSaysNothingOfTheStoreWithoutALookForANewerAttempt) {
  const std::string overrides = Overrides("wait.timeout=2s\n");
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = overrides.c_str();
  kedge_context* context = nullptr;
  ASSERT_KEDGE_OK(kedge_init(&options, nullptr, &context));
  EXPECT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  TakeOver();
  FailBelow("/jobs/api/attempts", CallsOf(Call::kList), EIO);
  std::this_thread::sleep_for(kLookIsOld);
  EXPECT_NE(kedge_finalize(context, 1), KEDGE_OK);
  EXPECT_THAT(kedge_error_message(), HasSubstr(std::strerror(EIO)));
}

class FlushFaultTest : public StoreFaultTest {};
INSTANTIATE_TEST_SUITE_P(Modes, FlushFaultTest, ::testing::Values(kAgent), ModeName);

// Nobody has waited for the version: the last call that can tell does.
TEST_P(FlushFaultTest, IsReturnedByFinalizeAndTheCopyOnTheNodeStays) {
  const std::string overrides = Overrides();
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = overrides.c_str();
  kedge_context* context = nullptr;
  ASSERT_KEDGE_OK(kedge_init(&options, nullptr, &context));
  EXPECT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  FailBelow("/data/r0.", CallsOf(Call::kPwrite), ENOSPC);
  data_ = Content(2);
  EXPECT_KEDGE_OK(kedge_protect(context, 0, data_.data(), data_.size(), 1, nullptr));
  EXPECT_KEDGE_OK(kedge_checkpoint(context, "s", 2, 0));
  EXPECT_EQ(kedge_finalize(context, 1), KEDGE_ERROR_NO_SPACE) << kedge_error_message();
  EXPECT_THAT(kedge_error_message(), HasSubstr(folder_.store()));
  agents_.Mend();
  ExpectRestart(Open(), 2);
}

// The look for a newer attempt fails once: the restart looks again, and does not go on as if there were none.
TEST_P(FlushFaultTest, OneErrorHidesNoNewerAttemptFromARestart) {
  kedge_context* context = Open("keep.local=2\n");
  for (const int64_t version : {1, 2}) ASSERT_EQ(Take(context, version), KEDGE_OK) << kedge_error_message();
  TakeOver();
  FailBelow("/jobs/api/attempts", CallsOf(Call::kList), EIO);
  std::thread mends([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    agents_.Mend();
  });
  EXPECT_EQ(kedge_restart(context, "s", 1, nullptr), KEDGE_ERROR_BUSY) << kedge_error_message();
  mends.join();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.store()))
    EXPECT_THAT(entry.path().filename().string(), ::testing::Not(HasSubstr("restored"))) << entry.path();
}

// The node cannot look whether somebody else has the job by now: what the store had may be gone, and nobody says that it is
// there.
TEST_P(FlushFaultTest, WhatIsInTheStoreIsNotSaidToBeThereWhenNobodyCanLookForANewerAttempt) {
  kedge_context* context = Open();
  ASSERT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  TakeOver();
  FailBelow("/jobs/api/attempts", CallsOf(Call::kList), EIO);
  std::this_thread::sleep_for(kLookIsOld);
  EXPECT_EQ(kedge_wait(context, "s", 1, KEDGE_LEVEL_STORE, 1.5), KEDGE_ERROR_TIMEOUT);
  EXPECT_THAT(kedge_error_message(), HasSubstr("newer attempt"));
  EXPECT_THAT(kedge_error_message(), HasSubstr(std::strerror(EIO)));
  EXPECT_EQ(kedge_wait(context, "s", 1, KEDGE_LEVEL_LAST, 0), KEDGE_ERROR_TIMEOUT);
  kedge_level level = KEDGE_LEVEL_NONE;
  EXPECT_KEDGE_OK(kedge_test(context, "s", 1, &level));
  EXPECT_EQ(level, KEDGE_LEVEL_LOCAL);
  EXPECT_KEDGE_OK(kedge_wait(context, "s", 1, KEDGE_LEVEL_LOCAL, 1));
  // Gone from the node, nothing vouches for it.
  EXPECT_KEDGE_OK(kedge_cleanup(context, "s"));
  EXPECT_EQ(kedge_wait(context, "s", 1, KEDGE_LEVEL_LOCAL, 1), KEDGE_ERROR_TIMEOUT);
  EXPECT_EQ(kedge_test(context, "s", 1, &level), KEDGE_ERROR_UNAVAILABLE);
  EXPECT_THAT(kedge_error_message(), HasSubstr(std::strerror(EIO)));
  agents_.Mend();
  EXPECT_EQ(kedge_wait(context, "s", 1, KEDGE_LEVEL_STORE, 60), KEDGE_ERROR_BUSY) << kedge_error_message();
}

// It is looked again as long as somebody waits.
TEST_P(FlushFaultTest, ALookForANewerAttemptThatFailsIsTriedAgain) {
  kedge_context* context = Open();
  ASSERT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  FailBelow("/jobs/api/attempts", CallsOf(Call::kList), EIO);
  std::this_thread::sleep_for(kLookIsOld);
  std::thread mends([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    agents_.Mend();
  });
  EXPECT_KEDGE_OK(kedge_wait(context, "s", 1, KEDGE_LEVEL_STORE, 60));
  mends.join();
  ExpectInStore(context, 1);
}

// What is to get no further than the nodes does not wait for a store that is away; what was there does.
TEST_P(FlushFaultTest, AStoreThatIsAwayHoldsUpOnlyWhatItIsToVouchFor) {
  const std::string away = folder_.store() + ".away";
  for (const bool has_stored : {false, true}) {
    SCOPED_TRACE(has_stored);
    const std::string overrides = Overrides(has_stored ? "job.name=stored\nwait.timeout=2s\n" : "schedule.store=0\n");
    kedge_options options = KEDGE_OPTIONS_INIT;
    options.overrides = overrides.c_str();
    kedge_context* context = nullptr;
    ASSERT_KEDGE_OK(kedge_init(&options, nullptr, &context));
    data_ = Content(1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, data_.data(), data_.size(), 1, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "s", has_stored ? 2 : 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, nullptr, 0, KEDGE_LEVEL_LAST, 60));
    std::filesystem::rename(folder_.store(), away);
    std::this_thread::sleep_for(kLookIsOld);
    EXPECT_KEDGE_OK(kedge_wait(context, nullptr, 0, KEDGE_LEVEL_LOCAL, 60));
    if (has_stored) {
      EXPECT_EQ(kedge_wait(context, nullptr, 0, KEDGE_LEVEL_STORE, 1), KEDGE_ERROR_TIMEOUT);
      EXPECT_THAT(kedge_error_message(), HasSubstr(folder_.store()));
    } else {
      EXPECT_KEDGE_OK(kedge_wait(context, nullptr, 0, KEDGE_LEVEL_LAST, 1));
    }
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(kedge_finalize(context, 1), has_stored ? KEDGE_ERROR_TIMEOUT : KEDGE_OK) << kedge_error_message();
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
    std::filesystem::rename(away, folder_.store());
    folder_.KillAgent();
  }
}

// Somebody asks again when there is room: `kedge wait` on the node, and the application.
TEST_P(FlushFaultTest, IsTriedAgainByAWaitOnceItIsOver) {
  kedge_context* context = Open();
  ASSERT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  FailBelow("/data/r0.", CallsOf(Call::kPwrite), ENOSPC);
  ASSERT_EQ(Take(context, 2), KEDGE_ERROR_NO_SPACE) << kedge_error_message();
  const std::vector<std::string> wait = {KEDGE_TEST_TOOL, "wait", "--timeout", "60s"};
  const std::map<std::string, std::string> environment = folder_.Environment();
  auto in_vain = ChildProcess(wait, environment, folder_.NewOutput());
  const auto result = in_vain.Wait(std::chrono::seconds(60));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->exit_code, 1);
  EXPECT_THAT(in_vain.Output(), HasSubstr(std::strerror(ENOSPC)));
  agents_.Mend();
  auto again = ChildProcess(wait, environment, folder_.NewOutput());
  EXPECT_TRUE(again.Succeeds(std::chrono::seconds(60)));
  EXPECT_KEDGE_OK(kedge_wait(context, "s", 2, KEDGE_LEVEL_STORE, 60));
  Close(context, 1);  // nothing is amiss any more
  ExpectInStore(Open(), 2);
}

// Part of the image has left its slots for the object that fails: it cannot be written again, and is not kept for a copy.
TEST_P(FlushFaultTest, AnImageGreaterThanThePoolIsLostAndTheOlderOneStays) {
  kedge_context* context = Open("pool.size=16MiB\n");
  ASSERT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  os::testing::FaultRule full;
  full.calls = CallsOf(Call::kPwrite);
  full.path_contains = "/data/r0.";
  full.errno_value = ENOSPC;
  full.byte_budget = 24 << 20;
  full.count = os::testing::kForEver;
  agents_.Steer({full});
  std::string large(40 << 20, 'x');
  EXPECT_KEDGE_OK(kedge_protect(context, 0, large.data(), large.size(), 1, nullptr));
  int code = kedge_checkpoint(context, "s", 2, 0);
  if (code == KEDGE_OK) code = kedge_wait(context, "s", 2, KEDGE_LEVEL_STORE, 60);
  EXPECT_EQ(code, KEDGE_ERROR_NO_SPACE) << kedge_error_message();
  agents_.Mend();
  ExpectRestart(context, 1);
  ASSERT_EQ(Take(context, 3), KEDGE_OK) << kedge_error_message();
  ExpectRestart(context, 3);
}

class TierFaultTest : public StoreFaultTest {
 protected:
  std::string Disk() const { return folder_.path() + "/disk"; }
  std::string DiskTier() const { return "tier=[{name=\"disk\", path='" + Disk() + "', capacity=\"64MiB\"}]\n"; }
};
INSTANTIATE_TEST_SUITE_P(Modes, TierFaultTest, ::testing::Values(kAgent), ModeName);

TEST_P(TierFaultTest, APoolWithoutSpaceLeavesItToTheNextTier) {
  FailBelow(folder_.run_folder() + "/pool", CallsOf(Call::kFallocate), ENOSPC);
  kedge_context* context = Open(DiskTier());
  ASSERT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  EXPECT_EQ(Statistics(context).bytes_directory, kBytes);
  EXPECT_EQ(Statistics(context).bytes_pool, 0u);
  ExpectRestart(context, 1);
}

TEST_P(TierFaultTest, ATierThatCannotBeWrittenLeavesItToTheStore) {
  kedge_context* context = Open("pool.size=0\n" + DiskTier());
  ASSERT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  for (int errno_value : {EIO, ENOSPC}) {
    FailBelow(Disk(), CallsOf(Call::kPwrite), errno_value);
    ASSERT_EQ(Take(context, errno_value), KEDGE_OK) << kedge_error_message();
    agents_.Mend();
    ExpectRestart(context, errno_value);
    ASSERT_GT(Statistics(context).checkpoints_inline, 0u);
  }
  // And with neither: the checkpoint fails with the reason.
  FailBelow(folder_.path(), CallsOf(Call::kPwrite), ENOSPC);
  EXPECT_EQ(Take(context, 100), KEDGE_ERROR_NO_SPACE);
  EXPECT_THAT(kedge_error_message(), HasSubstr(folder_.store()));
  agents_.Mend();
  ASSERT_EQ(Take(context, 101), KEDGE_OK) << kedge_error_message();
  ExpectRestart(context, 101);
}

}  // namespace
}  // namespace kedge::testing
