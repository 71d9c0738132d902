// What syncing many files at a time says of each, by every engine that is there.
#include "os/files/sync_together.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

#include "os/files/files.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

class SyncTogetherTest : public ::testing::TestWithParam<SyncEngine> {
 protected:
  // False where this machine has no such engine.
  static bool IsThere(const std::vector<Status>& statuses) {
    return GetParam() != SyncEngine::kRing || statuses.front().code() != Code::kUnsupported;
  }
  File* Open(const std::string& name, OpenFlags flags) {
    opened_.push_back(SystemFileSystem().Open(folder_ / name, flags).value());
    return opened_.back().get();
  }

  const testing::TemporaryFolder folder_;
  std::vector<std::unique_ptr<File>> opened_;
};

TEST_P(SyncTogetherTest, SaysOfEachWhatItsSyncSaid) {
  constexpr size_t kFiles = 300;  // more than are in flight at a time
  constexpr size_t kClosed = 260;
  std::vector<File*> files{Open("", OpenFlags::kRead | OpenFlags::kFolder)};
  while (files.size() < kFiles) {
    files.push_back(Open("f" + std::to_string(files.size()), OpenFlags::kReadWrite | OpenFlags::kCreate));
    ASSERT_TRUE(WriteAll(*files.back(), "abc", 3, 0).ok());
  }
  ASSERT_TRUE(files[kClosed]->Close().ok());
  const std::vector<Status> statuses = SyncTogether(files, GetParam());
  ASSERT_EQ(statuses.size(), kFiles);
  if (!IsThere(statuses)) GTEST_SKIP() << statuses.front().ToString();
  for (size_t i = 0; i < kFiles; ++i) {
    EXPECT_EQ(statuses[i].errno_value(), i == kClosed ? EBADF : 0) << i << ": " << statuses[i].ToString();
  }
  EXPECT_NE(statuses[kClosed].message().find("f" + std::to_string(kClosed)), std::string::npos) << statuses[kClosed].ToString();
}

TEST_P(SyncTogetherTest, TakesOneAndNone) {
  EXPECT_TRUE(SyncTogether({}, GetParam()).empty());
  File* const file = Open("f", OpenFlags::kReadWrite | OpenFlags::kCreate);
  const std::vector<Status> statuses = SyncTogether(std::span(&file, 1), GetParam());
  if (!IsThere(statuses)) GTEST_SKIP() << statuses.front().ToString();
  EXPECT_TRUE(statuses.front().ok()) << statuses.front().ToString();
}

INSTANTIATE_TEST_SUITE_P(Engines, SyncTogetherTest,
                         ::testing::Values(SyncEngine::kAuto, SyncEngine::kRing, SyncEngine::kThreads));

}  // namespace
}  // namespace kedge::os
