// veloc.h and the bootstrap on several ranks, through the launcher of each MPI library (ranks_app.cc).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/child_process.h"
#include "tests/support/scenario_folder.h"

namespace kedge::testing {
namespace {

using std::chrono::seconds;

const std::filesystem::path kPrograms = std::filesystem::read_symlink("/proc/self/exe").parent_path();

struct Flavour {
  const char* launcher;
  const char* program;
};

class MpiRanksTest : public ::testing::TestWithParam<Flavour> {
 protected:
  MpiRanksTest() {
    for (const char* mode : {"sync", "async"}) {
      std::ofstream(Config(mode)) << "scratch = " << folder_.memory_folder() << "/scratch\npersistent = " << folder_.store()
                                  << "-" << mode << "\nmode = " << mode << "\n";
    }
  }
  std::string Config(const std::string& mode) const { return folder_.path() + "/" + mode + ".cfg"; }

  void Run(int ranks, std::vector<std::string> arguments) {
    auto environment = folder_.MpiEnvironment();
    environment["KEDGE_STORE_PATH"] = environment["KEDGE_JOB_NAME"] = "";
    arguments.insert(arguments.begin(), {GetParam().launcher, "-n", std::to_string(ranks), kPrograms / GetParam().program});
    ChildProcess job(arguments, environment, folder_.NewOutput());
    ASSERT_TRUE(job.Succeeds(seconds(100)));
    const std::string output = job.Output();
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_NE(output.find("rank " + std::to_string(rank) + " is through"), std::string::npos) << output;
    }
  }
  void RunInBothModes(int ranks, const std::string& what, const std::string& more = "") {
    for (const char* mode : {"sync", "async"}) {
      SCOPED_TRACE(mode);
      Run(ranks, {what, Config(mode), more});
    }
  }

  ScenarioFolder folder_;
};
#ifdef KEDGE_TEST_default
INSTANTIATE_TEST_SUITE_P(OpenMpi, MpiRanksTest, ::testing::Values(Flavour{"mpirun.openmpi", "ranks_app_default"}));
#endif
#ifdef KEDGE_TEST_mpich
INSTANTIATE_TEST_SUITE_P(Mpich, MpiRanksTest, ::testing::Values(Flavour{"mpiexec.mpich", "ranks_app_mpich"}));
#endif

TEST_P(MpiRanksTest, TheUsualLoopAndItsRestart) {
  RunInBothModes(3, "save");
  RunInBothModes(3, "restore");
}

TEST_P(MpiRanksTest, FewerOrMoreRanksAreRefused) {
  RunInBothModes(3, "save");
  RunInBothModes(2, "restore", "refused");
  RunInBothModes(4, "restore", "refused");
  RunInBothModes(3, "restore");
}

TEST_P(MpiRanksTest, AVersionThatOneRankHasNotTakenDoesNotExist) {
  RunInBothModes(3, "missing");
}

TEST_P(MpiRanksTest, ARefusedCallCountsAsItDoesOnTheOtherRanks) {
  RunInBothModes(2, "refused");
}

TEST_P(MpiRanksTest, WhoWaitsForOtherRanksSleeps) {
  Run(2, {"late", Config("async")});
}

TEST_P(MpiRanksTest, RoutedFilesOfEveryRank) {
  RunInBothModes(2, "files", folder_.path());
  for (int rank : {0, 1}) {
    std::ifstream published(folder_.path() + "/rank-" + std::to_string(rank) + ".dat");
    const std::string content{std::istreambuf_iterator<char>(published), std::istreambuf_iterator<char>()};
    EXPECT_EQ(content, std::string(300000 + 1000 * static_cast<size_t>(rank), static_cast<char>('a' + rank)));
  }
}

TEST_P(MpiRanksTest, TwoCommunicatorsAndThreeLibrariesInOneProcess) {
  RunInBothModes(4, "libraries");
}

}  // namespace
}  // namespace kedge::testing
