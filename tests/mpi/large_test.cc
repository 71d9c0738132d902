// A region of more than 4 GiB through veloc.h, whose sizes are ints: restored to the last byte, and no size is cut off.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <fstream>

#include "kedge/veloc.h"
#include "tests/support/scenario_folder.h"

namespace kedge::testing {
namespace {

constexpr size_t kBytes = (size_t{4} << 30) + 4096;

TEST(VelocLarge, ARegionOfMoreThanFourGigabytes) {
  ScenarioFolder folder;
  for (const auto& [name, value] : folder.Environment()) {
    if (!value.empty() && name != "KEDGE_STORE_PATH" && name != "KEDGE_JOB_NAME") setenv(name.c_str(), value.c_str(), 1);
  }
  setenv("KEDGE_WAIT_TIMEOUT", "1200s", 1);
  const std::string config = folder.path() + "/veloc.cfg";
  std::ofstream(config) << "scratch = " << folder.memory_folder() << "/scratch\npersistent = " << folder.store()
                        << "\nmode = async\n";
  ASSERT_EQ(VELOC_Init(MPI_COMM_WORLD, config.c_str()), VELOC_SUCCESS);
  // Zeros that are nowhere, but for a few pages on both sides of what 32 bits hold.
  auto* region =
      static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(region, MAP_FAILED);
  const size_t marked[] = {0, (size_t{2} << 30) - 1, size_t{2} << 30, (size_t{4} << 30) - 1, size_t{4} << 30, kBytes - 1};
  char mark = 1;
  for (size_t place : marked) region[place] = mark++;
  ASSERT_EQ(VELOC_Mem_protect(7, region, kBytes, 1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint("large", 1), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Checkpoint_wait(), VELOC_SUCCESS);
  for (size_t place : marked) region[place] = 0;
  ASSERT_EQ(VELOC_Restart_begin("large", 1), VELOC_SUCCESS);
  EXPECT_EQ(VELOC_Recover_size(7), VELOC_FAILURE) << "above INT_MAX";
  ASSERT_EQ(VELOC_Recover_mem(), VELOC_SUCCESS);
  ASSERT_EQ(VELOC_Restart_end(1), VELOC_SUCCESS);
  mark = 1;
  for (size_t place : marked) EXPECT_EQ(region[place], mark++) << place;
  EXPECT_EQ(VELOC_Finalize(0), VELOC_SUCCESS);
  munmap(region, kBytes);
}

}  // namespace
}  // namespace kedge::testing
