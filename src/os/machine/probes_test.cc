#include "os/machine/probes.h"

#include <gtest/gtest.h>

#include "os/files/direct_io.h"
#include "os/files/files.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

TEST(Probes, MeasureSyncLeavesNothingBehind) {
  const testing::TemporaryFolder folder;
  const auto seconds = MeasureSyncSeconds(SystemFileSystem(), folder.path(), 4096, 3);
  ASSERT_TRUE(seconds.ok()) << seconds.status().ToString();
  EXPECT_GT(*seconds, 0);
  static_cast<void>(ProbeDirectIo(SystemFileSystem(), folder.path()));
  EXPECT_TRUE(SystemFileSystem().List(folder.path())->empty());
}

TEST(Probes, AFolderThatIsNotThereIsAnErrorThatNamesIt) {
  const auto seconds = MeasureSyncSeconds(SystemFileSystem(), "/nonexistent/kedge", 4096, 1);
  ASSERT_FALSE(seconds.ok());
  EXPECT_NE(seconds.status().message().find("/nonexistent/kedge"), std::string::npos);
}

TEST(Probes, TheLockedMemoryLimitIsKnown) {
  EXPECT_GT(LockedMemoryLimitBytes(), 0u);
}

}  // namespace
}  // namespace kedge::os
