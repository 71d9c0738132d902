// Kills: the application, its agent, or both, at random moments; whatever had been captured comes back bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "base/random.h"
#include "tests/support/child_process.h"
#include "tests/support/scenario_folder.h"

namespace kedge::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::filesystem::path kPrograms = std::filesystem::read_symlink("/proc/self/exe").parent_path();

// The number behind the last `word` in `output`; -1 when there is none.
int64_t Last(const std::string& output, const std::string& word) {
  const size_t at = output.rfind(word + " ");
  return at == std::string::npos ? -1 : std::stoll(output.substr(at + word.size() + 1));
}

// Of the ranks' outputs, mixed in one file: the greatest version that every rank has captured.
int64_t CapturedByAll(const std::string& output, int ranks) {
  std::map<int64_t, int> counts;
  int64_t newest = -1;
  for (size_t at = output.find("captured "); at != std::string::npos; at = output.find("captured ", at + 1)) {
    const int64_t version = std::stoll(output.substr(at + 9));
    if (++counts[version] == ranks) newest = std::max(newest, version);
  }
  return newest;
}

// The files outside `folders` on /dev/shm or in the temporary folder that a process maps and that still have a name.
std::vector<std::string> MappedOutside(pid_t pid, const std::vector<std::string>& folders) {
  std::vector<std::string> found;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path_begin = line.find('/');
    if (path_begin == std::string::npos || line.ends_with(" (deleted)")) continue;
    const std::string path = line.substr(path_begin);
    const auto holds = [&](const std::string& folder) { return path.starts_with(folder + "/"); };
    const bool is_temporary = holds("/dev/shm") || holds(std::filesystem::temp_directory_path());
    if (is_temporary && std::none_of(folders.begin(), folders.end(), holds)) found.push_back(path);
  }
  return found;
}

class KillTest : public ::testing::Test {
 protected:
  ~KillTest() override {
    if (HasFailure()) std::printf("seed %llu\n", static_cast<unsigned long long>(seed_));
  }

  std::vector<std::string> Command(const std::string& flavour, int ranks, const std::vector<std::string>& arguments) const {
    std::vector<std::string> command;
    if (flavour == "openmpi") command = {"mpirun.openmpi", "-n", std::to_string(ranks), kPrograms / "pattern_app_default"};
    if (flavour == "mpich") command = {"mpiexec.mpich", "-n", std::to_string(ranks), kPrograms / "pattern_app_mpich"};
    if (flavour.empty()) command = {kPrograms / "pattern_app"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  std::unique_ptr<ChildProcess> Start(const std::vector<std::string>& arguments, const std::string& flavour = "", int ranks = 1) {
    return std::make_unique<ChildProcess>(Command(flavour, ranks, arguments), environment_, folder_.NewOutput());
  }
  // Runs, kills after a random while, relaunches, `rounds` times. Nothing that was captured may be lost or wrong.
  void KillAndRelaunch(int rounds, bool kill_agent, const std::vector<std::string>& arguments, const std::string& flavour = "",
                       int ranks = 1) {
    int64_t newest = -1;
    for (int round = 0; round < rounds; ++round) {
      auto app = Start(arguments, flavour, ranks);
      ASSERT_TRUE(app->WaitForOutput("captured", seconds(60))) << app->Output();
      std::this_thread::sleep_for(milliseconds(random_.Below(120)));
      if (kill_agent && round % 2 == 0) folder_.KillAgent();
      if (kill_agent) std::this_thread::sleep_for(milliseconds(random_.Below(20)));
      app->Kill();
      if (kill_agent && round % 2 == 1) folder_.KillAgent();
      const std::string output = app->Output();
      ASSERT_EQ(output.find("failed"), std::string::npos) << output;
      ASSERT_EQ(output.find("WRONG"), std::string::npos) << output;
      ASSERT_GE(Last(output, "restored"), newest) << "round " << round << "\n" << output;
      newest = std::max(newest, CapturedByAll(output, ranks));
    }
    auto last = Start({"restart_only=1", arguments[1], arguments[2]}, flavour, ranks);
    ASSERT_TRUE(last->Succeeds(seconds(60)));
    EXPECT_GE(Last(last->Output(), "restored"), newest);
  }

  // What passes through the pool for want of room goes with its agent: a store may be slow, so there is room.
  void GiveRoom() { environment_["KEDGE_POOL_SIZE"] = "2GiB"; }

  ScenarioFolder folder_;
  std::map<std::string, std::string> environment_ = folder_.MpiEnvironment();
  const uint64_t seed_ = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  Random random_{seed_};
};

TEST_F(KillTest, TheApplicationAtRandomMoments) {
  KillAndRelaunch(10, false, {"steps=1000000", "bytes=200000", "grow=1", "drain=0"});
}

TEST_F(KillTest, TheApplicationInTheMiddleOfLargeCheckpoints) {
  KillAndRelaunch(8, false, {"steps=1000000", "bytes=5000000", "grow=0", "parts=1", "drain=0"});
}

TEST_F(KillTest, ApplicationAndAgent) {
  GiveRoom();
  KillAndRelaunch(10, true, {"steps=1000000", "bytes=700000", "grow=1", "drain=0"});
}

TEST_F(KillTest, TheAgentWhileTheApplicationGoesOn) {
  GiveRoom();
  auto app = Start({"steps=400", "bytes=1500000", "grow=1", "pause_ms=5"});
  for (int kills = 0; kills < 4; ++kills) {
    ASSERT_TRUE(app->WaitForOutput("captured " + std::to_string(80 * kills), seconds(60))) << app->Output();
    EXPECT_TRUE(folder_.KillAgent());
  }
  ASSERT_TRUE(app->Succeeds(seconds(120)));
  folder_.KillAgent();
  auto again = Start({"restart_only=1", "bytes=1500000", "grow=1"});
  ASSERT_TRUE(again->Succeeds(seconds(60)));
  EXPECT_EQ(Last(again->Output(), "restored"), 400) << again->Output();
}

// Also while it takes over from the one before.
TEST_F(KillTest, TheAgentAgainAndAgain) {
  GiveRoom();
  auto app = Start({"steps=400", "bytes=1500000", "grow=1", "pause_ms=5"});
  ASSERT_TRUE(app->WaitForOutput("captured", seconds(60))) << app->Output();
  for (int kills = 0; kills < 12; ++kills) {
    std::this_thread::sleep_for(milliseconds(random_.Below(300)));
    folder_.KillAgent();
  }
  ASSERT_TRUE(app->Succeeds(seconds(120)));
  folder_.KillAgent();
  auto again = Start({"restart_only=1", "bytes=1500000", "grow=1"});
  ASSERT_TRUE(again->Succeeds(seconds(60)));
  EXPECT_EQ(Last(again->Output(), "restored"), 400) << again->Output();
}

// What a killed rank leaves is what it had mapped: all of that must lie where it is removed.
class SharedMemoryTest : public KillTest {
 protected:
  void ExpectAllIsRemoved(const std::string& flavour) {
    auto app = Start({"steps=1000000", "bytes=200000", "grow=1", "drain=0"}, flavour, 2);
    ASSERT_TRUE(app->WaitForOutput("captured", seconds(60))) << app->Output();
    const std::vector<pid_t> processes = app->Descendants();
    EXPECT_GE(processes.size(), 2u);
    for (pid_t process : processes) {
      EXPECT_THAT(MappedOutside(process, {folder_.path(), folder_.memory_folder(), kPrograms.parent_path()}),
                  ::testing::IsEmpty());
    }
  }
};

#ifdef KEDGE_TEST_default
TEST_F(SharedMemoryTest, OfOpenMpiIsRemoved) {
  ExpectAllIsRemoved("openmpi");
}

TEST_F(KillTest, RanksOverOpenMpi) {
  KillAndRelaunch(4, false, {"steps=1000000", "bytes=200000", "grow=1", "drain=0"}, "openmpi", 3);
}

TEST_F(KillTest, RanksAndAgentOverOpenMpi) {
  KillAndRelaunch(4, true, {"steps=1000000", "bytes=900000", "grow=1", "drain=0"}, "openmpi", 2);
}
#endif

#ifdef KEDGE_TEST_mpich
TEST_F(SharedMemoryTest, OfMpichIsRemoved) {
  ExpectAllIsRemoved("mpich");
}

TEST_F(KillTest, RanksOverMpich) {
  KillAndRelaunch(3, false, {"steps=1000000", "bytes=200000", "grow=1", "drain=0"}, "mpich", 2);
}
#endif

}  // namespace
}  // namespace kedge::testing
