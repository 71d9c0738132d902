// main of the test programs that are a whole MPI job of one rank themselves: what the MPI library shares between processes
// lies in a folder that goes with the program.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <optional>

#include "tests/support/scenario_folder.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const bool only_listing = GTEST_FLAG_GET(list_tests);
  std::optional<kedge::testing::ScenarioFolder> mpi_folder;
  if (!only_listing) {
    for (const auto& [name, value] : mpi_folder.emplace().MpiEnvironment()) {
      if (name.starts_with("OMPI_")) setenv(name.c_str(), value.c_str(), 1);
    }
    MPI_Init(&argc, &argv);
  }
  const int result = RUN_ALL_TESTS();
  if (!only_listing) MPI_Finalize();
  return result;
}
