// What happens to one rank is everybody's business: bad copies, ranks too few or too many, versions that only some have taken.
#include <gmock/gmock.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>

#include "tests/client/api_fixture.h"
#include "tests/support/thread_ranks.h"

namespace kedge::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kBytes = 200;

std::string Content(int attempt, int rank, int version) {
  std::string text =
      "attempt-" + std::to_string(attempt) + "-rank-" + std::to_string(rank) + "-version-" + std::to_string(1000 + version) + "-";
  while (text.size() < kBytes) text += static_cast<char>('a' + text.size() % 26);
  return text;
}

class RanksTest : public ApiTest {
 protected:
  // Flips a bit wherever the text stands in the pool or the store's objects; how often it did.
  int Damage(const std::string& folder, const std::string& text) const {
    int found = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) found += FlipBitIn(entry.path(), text, text.size() / 2);
    }
    return found;
  }
  // A newer attempt has begun, by what the store says.
  void TakeOver() const {
    const std::string attempts = folder_.store() + "/jobs/api/attempts/";
    std::filesystem::copy_file(attempts + "1", attempts + "2");
  }
  std::string Pool() const { return folder_.run_folder() + "/pool"; }

  static void Protect(kedge_context* context, std::string* memory) {
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory->data(), kBytes, 1, nullptr));
  }
  static void Take(kedge_context* context, std::string* memory, int attempt, int rank, int version) {
    memory->replace(0, kBytes, Content(attempt, rank, version));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "r", version, 0));
  }
  // By all ranks: versions 1 and 2, in the store.
  void TakeTwo(int ranks) {
    ThreadRanks(ranks).Run(Overrides(), [](kedge_context* context, int rank) {
      std::string memory(kBytes, ' ');
      Protect(context, &memory);
      for (int version = 1; version <= 2; ++version) {
        Take(context, &memory, 1, rank, version);
        EXPECT_KEDGE_OK(kedge_wait(context, "r", version, KEDGE_LEVEL_STORE, 60));
      }
    });
  }
  // Restarts all ranks, and expects this version, as that attempt took it, everywhere.
  void ExpectRestart(int ranks, int attempt, int64_t expected, std::vector<kedge_statistics>* statistics = nullptr) {
    std::mutex mutex;
    ThreadRanks(ranks).Run(Overrides(), [&](kedge_context* context, int rank) {
      std::string memory(kBytes, ' ');
      Protect(context, &memory);
      int64_t version = -1;
      EXPECT_KEDGE_OK(kedge_restart(context, "r", -1, &version));
      EXPECT_EQ(version, expected) << "rank " << rank;
      EXPECT_EQ(memory, Content(attempt, rank, static_cast<int>(expected)));
      const std::lock_guard lock(mutex);
      if (statistics != nullptr) statistics->at(static_cast<size_t>(rank)) = Statistics(context);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, RanksTest, ::testing::Values(kInline, kAgent), ModeName);

TEST_P(RanksTest, OneRanksBadCopiesSendAllToTheOlderVersion) {
  TakeTwo(3);
  const int in_pool = GetParam().name == kAgent.name ? Damage(Pool(), Content(1, 1, 2)) : 1;
  EXPECT_GT(in_pool, 0);
  EXPECT_GT(Damage(folder_.store(), Content(1, 1, 2)), 0);
  ExpectRestart(3, 1, 1);
}

TEST_P(RanksTest, AMissingImageOfOneRankSendsAllToTheOlderVersion) {
  TakeTwo(3);
  folder_.KillAgent();
  std::filesystem::remove_all(folder_.run_folder());
  int removed = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.store())) {
    if (entry.path().filename() == "r1" && entry.path().string().find("/2-1-2/data/") != std::string::npos) {
      removed += std::filesystem::remove(entry.path()) ? 1 : 0;
    }
  }
  EXPECT_EQ(removed, 1);
  ExpectRestart(3, 1, 1);
}

TEST_P(RanksTest, FewerOrMoreRanksAreRefusedBeforeAnythingIsOverwritten) {
  TakeTwo(3);
  for (int ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    ThreadRanks(ranks).Run(Overrides(), [&](kedge_context* context, int) {
      std::string memory(kBytes, '#');
      Protect(context, &memory);
      EXPECT_EQ(kedge_restart(context, "r", -1, nullptr), KEDGE_ERROR_MISMATCH);
      EXPECT_THAT(kedge_error_message(), HasSubstr("3 ranks"));
      EXPECT_THAT(kedge_error_message(), HasSubstr(std::to_string(ranks)));
      EXPECT_EQ(memory, std::string(kBytes, '#'));
    });
  }
  ExpectRestart(3, 1, 2);
}

// Data, records, whatever lies between: a flipped bit anywhere sends the ranks to another copy or version, never astray.
TEST_P(RanksTest, ABadBitAnywhereIsPassedOver) {
  TakeTwo(2);
  const bool in_pool = GetParam().name == kAgent.name;
  std::vector<std::pair<std::string, uint64_t>> places;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(in_pool ? Pool() : folder_.store())) {
    const std::string path = entry.path();
    if (!entry.is_regular_file() || (!in_pool && path.find("/2-1-2/") == std::string::npos)) continue;
    const std::string content = ReadWhole(path);
    // Zeros are mostly what nobody has written yet.
    size_t used = 0;
    for (size_t at = content.find_first_not_of('\0'); at != content.npos; at = content.find_first_not_of('\0', at + 1)) {
      if (used++ % 19 == 0) places.emplace_back(path, at);
    }
  }
  ASSERT_GT(places.size(), 20u);
  int passed_over = 0;
  for (const auto& [path, offset] : places) {
    SCOPED_TRACE(path + " at " + std::to_string(offset));
    FlipBit(path, offset);
    ThreadRanks(2).Run(Overrides(), [&](kedge_context* context, int rank) {
      std::string memory(kBytes, ' ');
      Protect(context, &memory);
      int64_t version = -1;
      EXPECT_KEDGE_OK(kedge_restart(context, "r", -1, &version));
      EXPECT_TRUE(version == 2 || (version == 1 && !in_pool)) << version;
      EXPECT_EQ(memory, Content(1, rank, static_cast<int>(version)));
      if (rank == 0 && (version == 1 || Statistics(context).corrupt_copies > 0)) ++passed_over;
    });
    FlipBit(path, offset);
    if (HasFailure()) break;
  }
  EXPECT_GT(passed_over, 0);
}

// Rank 0 had published version 2, rank 1 had not, when both died; the next attempt takes version 2 again.
TEST_P(RanksTest, AHalfTakenVersionIsNeverMixedWithItsRetake) {
  ThreadRanks(2).Run(Overrides(), [](kedge_context* context, int rank) {
    std::string memory(kBytes, ' ');
    Protect(context, &memory);
    Take(context, &memory, 1, rank, 1);
    EXPECT_KEDGE_OK(kedge_wait(context, "r", 1, KEDGE_LEVEL_STORE, 60));
    if (rank == 0) Take(context, &memory, 1, rank, 2);
  });
  ExpectRestart(2, 1, 1);
  for (int first : {0, 1}) {
    // One rank of the new attempt alone does not complete it either, whatever the dead attempt had left.
    const int attempt = 3 + 2 * first;
    ThreadRanks(2).Run(Overrides(), [&](kedge_context* context, int rank) {
      std::string memory(kBytes, ' ');
      Protect(context, &memory);
      EXPECT_KEDGE_OK(kedge_restart(context, "r", -1, nullptr));
      if (rank == 1 || first == 1) Take(context, &memory, attempt, rank, 2);
      if (first == 1) {
        EXPECT_KEDGE_OK(kedge_wait(context, "r", 2, KEDGE_LEVEL_STORE, 60));
      }
    });
    ExpectRestart(2, first == 1 ? attempt : 1, first == 1 ? 2 : 1);
  }
}

// Each says so as soon as it can be known: without an agent when it is asked for.
TEST_P(RanksTest, RanksThatTakeDifferentVersionsAreTold) {
  const auto names_both = AllOf(HasSubstr("rank 0"), HasSubstr("version 10"), HasSubstr("rank 1"), HasSubstr("version 11"));
  std::barrier together(2);
  ThreadRanks(2).ExpectOfFinalize(1, KEDGE_ERROR_MISMATCH).Run(Overrides(), [&](kedge_context* context, int rank) {
    std::string memory(kBytes, ' ');
    Protect(context, &memory);
    Take(context, &memory, 1, rank, 1);
    EXPECT_KEDGE_OK(kedge_wait(context, "r", 1, KEDGE_LEVEL_STORE, 60));
    Take(context, &memory, 1, rank, 10 + rank);
    together.arrive_and_wait();
    EXPECT_EQ(kedge_wait(context, "r", 10 + rank, KEDGE_LEVEL_STORE, 20), KEDGE_ERROR_MISMATCH);
    EXPECT_THAT(kedge_error_message(), names_both);
    kedge_level level = KEDGE_LEVEL_NONE;
    EXPECT_EQ(kedge_test(context, "r", 10 + rank, &level), KEDGE_ERROR_MISMATCH);
    EXPECT_THAT(kedge_error_message(), names_both);
    Take(context, &memory, 1, rank, 20 + rank);
    if (GetParam().name == kAgent.name) {
      int64_t version = -1;
      EXPECT_EQ(kedge_last_flush_error(context, nullptr, 0, &version), KEDGE_ERROR_MISMATCH);
      EXPECT_THAT(kedge_error_message(), names_both);
      EXPECT_EQ(version, 10 + rank);
    }
    together.arrive_and_wait();
  });
  ExpectRestart(2, 1, 1);
}

// After a restart the ranks count alike again, whatever one of them had missed.
TEST_P(RanksTest, ARestartBringsARankBackThatHadMissedACheckpoint) {
  ThreadRanks(2).Run(Overrides(), [&](kedge_context* context, int rank) {
    std::string memory(kBytes, ' ');
    Protect(context, &memory);
    Take(context, &memory, 1, rank, 1);
    EXPECT_KEDGE_OK(kedge_wait(context, "r", 1, KEDGE_LEVEL_STORE, 60));
    if (rank == 0) Take(context, &memory, 1, rank, 2);
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "r", -1, &version));
    EXPECT_EQ(version, 1);
    Take(context, &memory, 2, rank, 2);
    EXPECT_KEDGE_OK(kedge_wait(context, "r", 2, KEDGE_LEVEL_STORE, 60));
    Take(context, &memory, 2, rank, 3);
    EXPECT_KEDGE_OK(kedge_wait(context, "r", 3, KEDGE_LEVEL_STORE, 60));
  });
  ExpectRestart(2, 2, 3);
}

TEST_P(RanksTest, AnyJobNameIsSafe) {
  const std::vector<std::string> names = {
      "a/b", "..", "../../../x", "a.*[b]$", "naïve ☃", std::string(1000, 'n'), std::string(1000, '%')};
  for (bool restart : {false, true}) {
    for (size_t i = 0; i < names.size(); ++i) {
      SCOPED_TRACE(names[i]);
      kedge_context* context = Open("job.name=" + names[i] + "\n");
      ASSERT_NE(context, nullptr);
      int value = restart ? -1 : static_cast<int>(i);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, &value, 1, sizeof value, nullptr));
      EXPECT_EQ(restart ? kedge_restart(context, "n", -1, nullptr) : kedge_checkpoint(context, "n", 1, 0), KEDGE_OK)
          << kedge_error_message();
      EXPECT_EQ(value, static_cast<int>(i));
      Close(context);
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) EXPECT_EQ(entry.path(), folder_.store());
}

// Two libraries in one process, each with ranks and a communicator of its own.
TEST_P(RanksTest, TwoSetsOfRanksInOneProcess) {
  std::vector<std::thread> libraries;
  for (int library : {2, 3}) {
    libraries.emplace_back([this, library] {
      ThreadRanks(library).Run(Overrides("job.name=library " + std::to_string(library) + "\n"),
                               [&](kedge_context* context, int rank) {
                                 std::string memory(kBytes, ' ');
                                 Protect(context, &memory);
                                 for (int version = 1; version <= 10; ++version) Take(context, &memory, library, rank, version);
                                 EXPECT_KEDGE_OK(kedge_wait(context, "r", 10, KEDGE_LEVEL_STORE, 60));
                                 memory.replace(0, kBytes, std::string(kBytes, ' '));
                                 int64_t version = 0;
                                 EXPECT_KEDGE_OK(kedge_restart(context, "r", -1, &version));
                                 EXPECT_EQ(version, 10);
                                 EXPECT_EQ(memory, Content(library, rank, 10));
                               });
    });
  }
  for (std::thread& library : libraries) library.join();
}

// The agent dies between two ranks' checkpoints: one has handed its image over, the other writes its own to the store, where
// nothing else of that version was to go.
class HalfStraightTest : public RanksTest {
 protected:
  // An agent takes so long to start that something happens meanwhile.
  HalfStraightTest() {
    const std::filesystem::path programs = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin";
    const std::string slowly = folder_.path() + "/slowly";
    std::ofstream(slowly) << "#!/bin/sh\nsleep 0.3\nexec " << programs / "kedge-agent"
                          << " \"$@\"\n";
    std::filesystem::permissions(slowly, std::filesystem::perms::owner_all);
    setenv("KEDGE_AGENT", slowly.c_str(), 1);
  }
  ~HalfStraightTest() override { unsetenv("KEDGE_AGENT"); }
  void TakeHalfStraight(const std::function<void(kedge_context*)>& then) {
    std::barrier<> together(2);
    ThreadRanks(2).Run(Overrides("schedule.store=0\n"), [&](kedge_context* context, int rank) {
      std::string memory(kBytes, ' ');
      Protect(context, &memory);
      Take(context, &memory, 1, rank, 1);
      together.arrive_and_wait();
      if (rank == 0) Take(context, &memory, 1, rank, 2);
      if (rank == 0) folder_.KillAgent();
      together.arrive_and_wait();
      if (rank == 1) {
        // It notices that the agent is gone; there is no other one yet.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        Take(context, &memory, 1, rank, 2);
        EXPECT_GT(Statistics(context).checkpoints_inline, 0u);
      }
      together.arrive_and_wait();
      then(context);
      together.arrive_and_wait();
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, HalfStraightTest, ::testing::Values(kInline, kAgent), ModeName);

TEST_P(HalfStraightTest, BothHalvesAreRestored) {
  TakeHalfStraight([](kedge_context*) {});
  folder_.KillAgent();  // its successor finds what is left of an attempt that has ended
  ExpectRestart(2, 1, 2);
}

TEST_P(HalfStraightTest, TheOtherHalfGoesToTheStoreToo) {
  TakeHalfStraight([](kedge_context* context) { EXPECT_KEDGE_OK(kedge_wait(context, "r", 2, KEDGE_LEVEL_LAST, 60)); });
  folder_.KillAgent();
  std::filesystem::remove_all(folder_.run_folder());
  ExpectRestart(2, 1, 2);
}

// Ranks that neither renew the lease nor publish anything hear of it, too, and are told that nothing of theirs is safe.
TEST_P(RanksTest, EveryRankHearsThatTheJobWasTakenOver) {
  const bool has_agent = GetParam().name == kAgent.name;
  const kedge_level level = has_agent ? KEDGE_LEVEL_LOCAL : KEDGE_LEVEL_STORE;
  std::barrier<> together(2);
  ThreadRanks(2)
      .ExpectOfFinalize(0, KEDGE_ERROR_BUSY)
      .Run(Overrides(has_agent ? "job.lease=1s\nschedule.store=0\n" : "job.lease=1s\n"), [&](kedge_context* context, int rank) {
        std::string memory(kBytes, ' ');
        Protect(context, &memory);
        Take(context, &memory, 1, rank, 1);
        EXPECT_KEDGE_OK(kedge_wait(context, "r", 1, level, 60));
        together.arrive_and_wait();
        if (rank == 0) TakeOver();
        int code = KEDGE_OK;
        for (int i = 0; i < 200 && code == KEDGE_OK; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          code = kedge_wait(context, "r", 1, level, 60);
        }
        EXPECT_EQ(code, KEDGE_ERROR_BUSY) << "rank " << rank << ": " << kedge_error_message();
        EXPECT_EQ(kedge_checkpoint(context, "r", 2, 0), KEDGE_ERROR_BUSY) << "rank " << rank;
        together.arrive_and_wait();
      });
}

// Also to ranks that have asked for nothing since.
TEST_P(RanksTest, TheLastCallSaysThatTheJobWasTakenOver) {
  std::barrier<> together(2);
  ThreadRanks(2).ExpectOfFinalize(1, KEDGE_ERROR_BUSY).Run(Overrides(""), [&](kedge_context* context, int rank) {
    std::string memory(kBytes, ' ');
    Protect(context, &memory);
    Take(context, &memory, 1, rank, 1);
    EXPECT_KEDGE_OK(kedge_wait(context, "r", 1, KEDGE_LEVEL_STORE, 60));
    together.arrive_and_wait();
    if (rank == 0) TakeOver();
    together.arrive_and_wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // what was looked up before that does not count any more
  });
}

// A checkpoint that hears of it is enough for all later calls.
TEST_P(RanksTest, WhatACheckpointHasHeardTheLaterCallsSay) {
  if (GetParam().name == kAgent.name) return;  // its checkpoints ask nobody
  std::barrier<> together(2);
  ThreadRanks(2).ExpectOfFinalize(0, KEDGE_ERROR_BUSY).Run(Overrides(""), [&](kedge_context* context, int rank) {
    std::string memory(kBytes, ' ');
    Protect(context, &memory);
    Take(context, &memory, 1, rank, 1);
    together.arrive_and_wait();
    if (rank == 0) TakeOver();
    together.arrive_and_wait();
    EXPECT_EQ(kedge_checkpoint(context, "r", 2, 0), KEDGE_ERROR_BUSY) << "rank " << rank;
    EXPECT_EQ(kedge_checkpoint(context, "r", 3, 0), KEDGE_ERROR_BUSY) << "rank " << rank;
    kedge_level level = KEDGE_LEVEL_NONE;
    EXPECT_EQ(kedge_test(context, "r", 3, &level), KEDGE_ERROR_BUSY) << "rank " << rank;
    EXPECT_EQ(kedge_wait(context, "r", 3, KEDGE_LEVEL_STORE, 60), KEDGE_ERROR_BUSY) << "rank " << rank;
  });
}

// What was removed is not only late.
TEST_P(RanksTest, WhatTheNewerAttemptHasRemovedIsNotWaitedFor) {
  std::barrier<> together(2);
  ThreadRanks(2).ExpectOfFinalize(0, KEDGE_ERROR_BUSY).Run(Overrides("job.mode=sync\n"), [&](kedge_context* context, int rank) {
    std::string memory(kBytes, ' ');
    Protect(context, &memory);
    Take(context, &memory, 1, rank, 1);
    together.arrive_and_wait();
    if (rank == 0) TakeOver();
    if (rank == 0) std::filesystem::remove_all(folder_.store() + "/jobs/api/names/r");
    together.arrive_and_wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // what was looked up before that does not count any more
    EXPECT_EQ(kedge_wait(context, "r", 1, KEDGE_LEVEL_STORE, 3), KEDGE_ERROR_BUSY) << "rank " << rank;
    together.arrive_and_wait();
  });
}

// What was safe there a moment ago the newer attempt may have removed: long before this one looks after its lease again.
TEST_P(RanksTest, WhatIsInTheStoreIsNotSaidToBeThereOnceTheJobWasTakenOver) {
  std::barrier<> together(2);
  ThreadRanks(2).ExpectOfFinalize(0, KEDGE_ERROR_BUSY).Run(Overrides(""), [&](kedge_context* context, int rank) {
    std::string memory(kBytes, ' ');
    Protect(context, &memory);
    Take(context, &memory, 1, rank, 1);
    EXPECT_KEDGE_OK(kedge_wait(context, "r", 1, KEDGE_LEVEL_STORE, 60));
    together.arrive_and_wait();
    if (rank == 0) TakeOver();
    together.arrive_and_wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // what was looked up before that does not count any more
    kedge_level level = KEDGE_LEVEL_NONE;
    EXPECT_EQ(kedge_test(context, "r", 1, &level), KEDGE_ERROR_BUSY) << "rank " << rank;
    EXPECT_EQ(kedge_wait(context, "r", 1, KEDGE_LEVEL_STORE, 60), KEDGE_ERROR_BUSY) << "rank " << rank;
    together.arrive_and_wait();
  });
}

// What the newer attempt goes on from does not depend on where the older one goes back to meanwhile.
TEST_P(RanksTest, AnAttemptThatWasTakenOverRestartsNoMore) {
  const bool has_agent = GetParam().name == kAgent.name;
  std::barrier<> together(2);
  ThreadRanks(2)
      .ExpectOfFinalize(0, KEDGE_ERROR_BUSY)
      .Run(Overrides(has_agent ? "schedule.store=0\nkeep.local=2\n" : ""), [&](kedge_context* context, int rank) {
        std::string memory(kBytes, ' ');
        Protect(context, &memory);
        Take(context, &memory, 1, rank, 1);
        Take(context, &memory, 1, rank, 2);
        EXPECT_KEDGE_OK(kedge_wait(context, "r", 2, has_agent ? KEDGE_LEVEL_LOCAL : KEDGE_LEVEL_STORE, 60));
        together.arrive_and_wait();
        if (rank == 0) TakeOver();
        together.arrive_and_wait();
        EXPECT_EQ(kedge_restart(context, "r", 1, nullptr), KEDGE_ERROR_BUSY) << "rank " << rank;
        EXPECT_EQ(kedge_restart(context, "r", 2, nullptr), KEDGE_ERROR_BUSY) << "rank " << rank;
        int64_t newest = 0;
        EXPECT_EQ(kedge_newest(context, "r", -1, &newest), KEDGE_ERROR_BUSY) << "rank " << rank;
        together.arrive_and_wait();
      });
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.store()))
    EXPECT_THAT(entry.path().filename().string(), ::testing::Not(::testing::HasSubstr("restored"))) << entry.path();
}

}  // namespace
}  // namespace kedge::testing
