// veloc.h call by call, by one process that is a whole MPI job: each call, each semantic that the compatibility promises.
#include "kedge/veloc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/scenario_folder.h"

namespace kedge::testing {
namespace {

class VelocTest : public ::testing::TestWithParam<const char*> {
 protected:
  VelocTest() {
    for (const auto& [name, value] : folder_.Environment()) {
      if (!value.empty() && name != "KEDGE_STORE_PATH" && name != "KEDGE_JOB_NAME") setenv(name.c_str(), value.c_str(), 1);
    }
    unsetenv("KEDGE_STORE_PATH");
    WriteConfig("");
  }
  ~VelocTest() override {
    if (open_) VELOC_Finalize(0);
  }

  // `more`: lines added to the three that must be there.
  void WriteConfig(const std::string& more, const std::string& mode = GetParam()) {
    std::ofstream(config_) << "scratch = " << Scratch() << "\npersistent = " << folder_.store() << "\nmode = " << mode << "\n"
                           << more;
  }
  std::string Scratch() const { return folder_.run_folder() + "-scratch"; }
  int Init() {
    const int result = VELOC_Init(MPI_COMM_WORLD, config_.c_str());
    open_ = result == VELOC_SUCCESS;
    return result;
  }
  int Finalize(int drain) {
    open_ = false;
    return VELOC_Finalize(drain);
  }
  void TearDown() override {
    if (open_) Finalize(0);
    std::error_code ignored;
    std::filesystem::remove_all(Scratch(), ignored);
  }

  ScenarioFolder folder_;
  std::string config_ = folder_.path() + "/veloc.cfg";
  bool open_ = false;
};
INSTANTIATE_TEST_SUITE_P(Modes, VelocTest, ::testing::Values("sync", "async"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST_P(VelocTest, TheUsualLoop) {
  std::vector<double> field(1000, 0.0);
  int step = 0;
  for (int launch = 0; launch < 3; ++launch) {
    ASSERT_EQ(Init(), VELOC_SUCCESS);
    ASSERT_EQ(VELOC_Mem_protect(0, &step, 1, sizeof(int)), VELOC_SUCCESS);
    ASSERT_EQ(VELOC_Mem_protect(1, field.data(), field.size(), sizeof(double)), VELOC_SUCCESS);
    const int version = VELOC_Restart_test("loop", 0);
    EXPECT_EQ(version, launch == 0 ? VELOC_FAILURE : launch * 3);
    step = version > 0 ? -1 : 0;
    field.assign(field.size(), -1.0);
    if (version > 0) {
      ASSERT_EQ(VELOC_Restart("loop", version), VELOC_SUCCESS);
      EXPECT_EQ(step, version);
      EXPECT_EQ(field, std::vector<double>(1000, version * 1.0));
      // The usual loop takes the version again from which it restarted.
      ASSERT_EQ(VELOC_Checkpoint("loop", version), VELOC_SUCCESS);
    }
    for (int i = 0; i < 3; ++i) {
      ++step;
      field.assign(field.size(), step * 1.0);
      ASSERT_EQ(VELOC_Checkpoint("loop", step), VELOC_SUCCESS);
    }
    ASSERT_EQ(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
    ASSERT_EQ(Finalize(1), VELOC_SUCCESS) << "it deletes nothing";
  }
}

TEST_P(VelocTest, CallsOutsideInitFail) {
  int value = 0;
  EXPECT_EQ(VELOC_Mem_protect(0, &value, 1, 4), VELOC_FAILURE);
  EXPECT_EQ(VELOC_Checkpoint("x", 1), VELOC_FAILURE);
  EXPECT_EQ(VELOC_Restart_test("x", 0), VELOC_FAILURE);
  EXPECT_EQ(VELOC_Finalize(0), VELOC_FAILURE);
  ASSERT_EQ(Init(), VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Init(MPI_COMM_WORLD, config_.c_str()), VELOC_FAILURE) << "once a process";
}

TEST_P(VelocTest, ABadConfigurationIsRefused) {
  EXPECT_EQ(VELOC_Init(MPI_COMM_WORLD, (folder_.path() + "/none.cfg").c_str()), VELOC_FAILURE);
  EXPECT_EQ(VELOC_Init(MPI_COMM_WORLD, nullptr), VELOC_FAILURE);
  WriteConfig("scrtach_versions = 1\n");
  EXPECT_EQ(Init(), VELOC_FAILURE);
  WriteConfig("axl_type = N/A\nmax_versions = 3\n");
  EXPECT_EQ(Init(), VELOC_SUCCESS);
}

TEST_P(VelocTest, TheEnvironmentWinsOverTheFile) {
  setenv("VELOC_PERSISTENT", (folder_.path() + "/elsewhere").c_str(), 1);
  const int result = Init();
  unsetenv("VELOC_PERSISTENT");
  ASSERT_EQ(result, VELOC_SUCCESS);
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/elsewhere/kedge-store"));
  EXPECT_FALSE(std::filesystem::exists(folder_.store()));
}

TEST_P(VelocTest, VersionZeroAndVersionsAtMost) {
  ASSERT_EQ(Init(), VELOC_SUCCESS);
  int value = 7;
  ASSERT_EQ(VELOC_Mem_protect(0, &value, 1, sizeof value), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint("z", 0), VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Restart_test("z", 0), 0);
  ASSERT_EQ(VELOC_Checkpoint("z", 5), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint("z", 9), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Restart_test("z", 0), 9);
  EXPECT_EQ(VELOC_Restart_test("z", 8), 5);
  EXPECT_EQ(VELOC_Restart_test("z", 4), 0);
  EXPECT_EQ(VELOC_Restart_test("y", 0), VELOC_FAILURE);
  value = 0;
  EXPECT_EQ(VELOC_Restart("z", 0), VELOC_SUCCESS);
  EXPECT_EQ(value, 7);
  EXPECT_EQ(VELOC_Checkpoint("z", -1), VELOC_FAILURE);
}

TEST_P(VelocTest, ALowerVersionIsAcceptedAndTheOldOneStaysUntilItIsComplete) {
  ASSERT_EQ(Init(), VELOC_SUCCESS);
  int value = 1;
  ASSERT_EQ(VELOC_Mem_protect(0, &value, 1, sizeof value), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint("v", 5), VELOC_SUCCESS);
  value = 2;
  ASSERT_EQ(VELOC_Checkpoint_begin("v", 5), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint_mem(), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint_end(0), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Restart("v", 5), VELOC_SUCCESS);
  EXPECT_EQ(value, 1);
  value = 3;
  ASSERT_EQ(VELOC_Checkpoint("v", 5), VELOC_SUCCESS);
  value = 0;
  ASSERT_EQ(VELOC_Restart("v", 5), VELOC_SUCCESS);
  EXPECT_EQ(value, 3);
  value = 4;
  EXPECT_EQ(VELOC_Checkpoint("v", 2), VELOC_SUCCESS);
}

TEST_P(VelocTest, SelectiveCheckpointsAndRestarts) {
  ASSERT_EQ(Init(), VELOC_SUCCESS);
  int a = 1;
  int b = 2;
  int c = 3;
  for (auto [id, value] : {std::pair{1, &a}, std::pair{2, &b}, std::pair{3, &c}}) {
    ASSERT_EQ(VELOC_Mem_protect(id, value, 1, sizeof(int)), VELOC_SUCCESS);
  }
  int ids[] = {1, 2};
  EXPECT_EQ(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, ids, 2), VELOC_FAILURE) << "before begin";
  ASSERT_EQ(VELOC_Checkpoint_begin("s", 1), VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Checkpoint_begin("s", 2), VELOC_FAILURE) << "one at a time";
  ASSERT_EQ(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, ids, 2), VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Checkpoint_selective(7, ids, 2), VELOC_FAILURE);
  int unknown = 99;
  EXPECT_EQ(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, &unknown, 1), VELOC_FAILURE) << "an empty selection";
  ASSERT_EQ(VELOC_Checkpoint_end(1), VELOC_SUCCESS);
  a = b = c = 0;
  ASSERT_EQ(VELOC_Restart_begin("s", 1), VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Recover_size(1), static_cast<int>(sizeof(int)));
  EXPECT_EQ(VELOC_Recover_size(3), 0) << "not saved";
  ASSERT_EQ(VELOC_Recover_selective(VELOC_RECOVER_SOME, ids, 1), VELOC_SUCCESS);
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 0);
  int rest[] = {1, 3};
  ASSERT_EQ(VELOC_Recover_selective(VELOC_RECOVER_REST, rest, 2), VELOC_SUCCESS);
  EXPECT_EQ(b, 2);
  EXPECT_EQ(VELOC_Recover_mem(), VELOC_FAILURE) << "region 3 is protected, but was not saved";
  ASSERT_EQ(VELOC_Restart_end(1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint_begin("s", 2), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint_selective(VELOC_CKPT_REST, ids, 1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint_end(1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Restart_begin("s", 2), VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Recover_size(1), 0);
  EXPECT_EQ(VELOC_Recover_size(2), static_cast<int>(sizeof(int)));
  ASSERT_EQ(VELOC_Restart_end(1), VELOC_SUCCESS);
}

TEST_P(VelocTest, ProtectingAgainReplacesPointerAndSize) {
  ASSERT_EQ(Init(), VELOC_SUCCESS);
  std::vector<int> old_place(10, 1);
  std::vector<int> new_place(20, 2);
  ASSERT_EQ(VELOC_Mem_protect(0, old_place.data(), 10, sizeof(int)), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Mem_protect(0, new_place.data(), 20, sizeof(int)), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint("p", 1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Restart_begin("p", 1), VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Recover_size(0), static_cast<int>(20 * sizeof(int)));
  ASSERT_EQ(VELOC_Restart_end(1), VELOC_SUCCESS);
  // A region greater, or smaller, than what was saved is refused, and stays as it is.
  for (size_t count : {10, 21}) {
    std::vector<int> other(count, 5);
    ASSERT_EQ(VELOC_Mem_protect(0, other.data(), count, sizeof(int)), VELOC_SUCCESS);
    EXPECT_EQ(VELOC_Restart("p", 1), VELOC_FAILURE);
    EXPECT_EQ(other, std::vector<int>(count, 5));
  }
  ASSERT_EQ(VELOC_Mem_unprotect(0), VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Mem_unprotect(0), VELOC_FAILURE);
}

TEST_P(VelocTest, NamedRegionsBelongToTheirCheckpoint) {
  ASSERT_EQ(Init(), VELOC_SUCCESS);
  int plain = 1;
  int named = 2;
  ASSERT_EQ(VELOC_Mem_protect(0, &plain, 1, sizeof plain), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Region_protect(0, &named, 1, sizeof named, "special"), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint("special", 1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint("other", 1), VELOC_SUCCESS);
  plain = named = 0;
  ASSERT_EQ(VELOC_Restart("special", 1), VELOC_SUCCESS);
  EXPECT_EQ(plain, 0);
  EXPECT_EQ(named, 2);
  ASSERT_EQ(VELOC_Restart("other", 1), VELOC_SUCCESS);
  EXPECT_EQ(plain, 1);
  ASSERT_EQ(VELOC_Region_unprotect(0, "special"), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Region_clear("special"), VELOC_SUCCESS);
  plain = 8;
  ASSERT_EQ(VELOC_Checkpoint("special", 2), VELOC_SUCCESS) << "the unnamed regions, now that it has none of its own";
  plain = 0;
  ASSERT_EQ(VELOC_Restart("special", 2), VELOC_SUCCESS);
  EXPECT_EQ(plain, 8);
  ASSERT_EQ(VELOC_Mem_clear(), VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Checkpoint("other", 2), VELOC_FAILURE) << "nothing is protected";
}

TEST_P(VelocTest, CleanupRemovesLocalCopiesOnly) {
  ASSERT_EQ(Init(), VELOC_SUCCESS);
  int value = 3;
  ASSERT_EQ(VELOC_Mem_protect(0, &value, 1, sizeof value), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint("c", 1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Cleanup("c"), VELOC_SUCCESS);
  value = 0;
  ASSERT_EQ(VELOC_Restart("c", VELOC_Restart_test("c", 0)), VELOC_SUCCESS);
  EXPECT_EQ(value, 3);
}

TEST_P(VelocTest, FinishedTellsWhetherAFlushRuns) {
  setenv("KEDGE_FLUSH_RATE", "20MB", 1);
  const int result = Init();
  unsetenv("KEDGE_FLUSH_RATE");
  ASSERT_EQ(result, VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Checkpoint_finished(), VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Checkpoint_wait(), VELOC_SUCCESS) << "nothing to wait for";
  std::vector<char> data(10 << 20, 'x');
  ASSERT_EQ(VELOC_Mem_protect(0, data.data(), data.size(), 1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint("f", 1), VELOC_SUCCESS);
  const bool async = std::string(GetParam()) == "async";
  EXPECT_EQ(VELOC_Checkpoint_finished(), async ? VELOC_FAILURE : VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
  for (int i = 0; i < 500 && VELOC_Checkpoint_finished() != VELOC_SUCCESS; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(VELOC_Checkpoint_finished(), VELOC_SUCCESS);
}

TEST_P(VelocTest, AnIntervalOfMinusOneKeepsVersionsLocal) {
  if (std::string(GetParam()) == "sync") return;  // then the persistent path is all there is
  WriteConfig("persistent_interval = -1\n");
  ASSERT_EQ(Init(), VELOC_SUCCESS);
  int value = 4;
  ASSERT_EQ(VELOC_Mem_protect(0, &value, 1, sizeof value), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint("i", 1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint_wait(), VELOC_SUCCESS) << "its last level is the local one";
  EXPECT_EQ(VELOC_Checkpoint_finished(), VELOC_SUCCESS);
  value = 0;
  EXPECT_EQ(VELOC_Restart_test("i", 0), 1);
  ASSERT_EQ(VELOC_Restart("i", 1), VELOC_SUCCESS);
  EXPECT_EQ(value, 4);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.store())) {
    EXPECT_EQ(entry.path().string().find("/data/"), std::string::npos) << entry.path();
  }
}

// VELOC has one code for both, and a program that hears it begins anew: what is lost is said aloud, a first launch is not.
TEST_P(VelocTest, WhatIsLostFailsLoudlyAndAFirstLaunchDoesNot) {
  const auto test = [](int expected) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(VELOC_Restart_test("lost", 0), expected);
    return ::testing::internal::GetCapturedStderr();
  };
  WriteConfig("persistent_interval = -1\n", "async");
  ASSERT_EQ(Init(), VELOC_SUCCESS);
  EXPECT_EQ(test(VELOC_FAILURE), "");
  int value = 4;
  ASSERT_EQ(VELOC_Mem_protect(0, &value, 1, sizeof value), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint("lost", 1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
  EXPECT_EQ(test(1), "");
  const auto noted = [&] {
    const auto files = std::filesystem::recursive_directory_iterator(folder_.store());
    return std::any_of(begin(files), end(files), [](const auto& entry) { return entry.path().filename() == "reached"; });
  };
  for (int i = 0; i < 1000 && !noted(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(noted());
  ASSERT_EQ(Finalize(0), VELOC_SUCCESS);
  // The node goes, with all that it has.
  folder_.KillAgent();
  std::filesystem::remove_all(folder_.run_folder());
  std::filesystem::remove_all(Scratch());
  WriteConfig("");
  ASSERT_EQ(Init(), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Mem_protect(0, &value, 1, sizeof value), VELOC_SUCCESS);
  const std::string said = test(VELOC_FAILURE);
  for (const char* text :
       {" warning ", "'lost' is lost: version 1 of attempt 1", "restart.if_lost=begin", " error ", "veloc: VELOC_Restart_test: "})
    EXPECT_NE(said.find(text), std::string::npos) << text << " is not in " << said;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(VELOC_Restart("lost", 1), VELOC_FAILURE);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("'lost' is lost"), std::string::npos);
}

TEST_P(VelocTest, RoutedFilesEndAtTheirOriginalPaths) {
  ASSERT_EQ(Init(), VELOC_SUCCESS);
  const std::string original = folder_.path() + "/restart.dat";
  char routed[VELOC_MAX_NAME];
  EXPECT_EQ(VELOC_Route_file(original.c_str(), routed), VELOC_FAILURE) << "outside begin and end";
  ASSERT_EQ(VELOC_Checkpoint_begin("files", 1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Route_file(original.c_str(), routed), VELOC_SUCCESS);
  std::ofstream(routed) << "the state";
  ASSERT_EQ(VELOC_Checkpoint_end(1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
  for (int i = 0; i < 500 && !std::filesystem::exists(original); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::ifstream published(original);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(published), {}), "the state");
  ASSERT_EQ(VELOC_Restart_begin("files", 1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Route_file(original.c_str(), routed), VELOC_SUCCESS);
  std::ifstream restored(routed);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(restored), {}), "the state");
  ASSERT_EQ(VELOC_Restart_end(1), VELOC_SUCCESS);
}

TEST_P(VelocTest, SingleProcessesAreKeptApartById) {
  int value = 10;
  for (unsigned id : {3u, 4u}) {
    ASSERT_EQ(VELOC_Init_single(id, config_.c_str()), VELOC_SUCCESS);
    open_ = true;
    ASSERT_EQ(VELOC_Mem_protect(0, &value, 1, sizeof value), VELOC_SUCCESS);
    EXPECT_EQ(VELOC_Restart_test("one", 0), VELOC_FAILURE);
    value = static_cast<int>(id);
    ASSERT_EQ(VELOC_Checkpoint("one", 1), VELOC_SUCCESS);
    ASSERT_EQ(Finalize(1), VELOC_SUCCESS);
  }
  ASSERT_EQ(VELOC_Init_single(3, config_.c_str()), VELOC_SUCCESS);
  open_ = true;
  ASSERT_EQ(VELOC_Mem_protect(0, &value, 1, sizeof value), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Restart("one", VELOC_Restart_test("one", 0)), VELOC_SUCCESS);
  EXPECT_EQ(value, 3);
}

}  // namespace
}  // namespace kedge::testing
