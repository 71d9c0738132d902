// What a tier is not made of: other users' folders.
#include "agent/space/tiers.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/testing/local_agent.h"
#include "os/files/files.h"
#include "os/testing/other_user.h"
#include "os/testing/temporary_folder.h"

namespace kedge {
namespace {

// A scratch in which everybody may write; on /dev/shm it is a memory tier, else a directory tier.
class SharedScratchTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!os::testing::CanPlayAnotherUser()) GTEST_SKIP() << "only root can be several users";
  }
  Status TryScratch() {
    testing::LocalAgent agent(4, 64 << 10);
    JobKeys keys;
    keys.scratch = scratch_.path();
    return agent->tiers().ForJob(keys).status();
  }
  const os::testing::SharedFolder scratch_{GetParam()};
  const std::string ours_ = scratch_ / ("kedge-" + std::to_string(geteuid()) + "-local");
};
INSTANTIATE_TEST_SUITE_P(Kinds, SharedScratchTest, ::testing::Values("/dev/shm", "/tmp"),
                         [](const auto& param) { return param.index == 0 ? "Memory" : "Directory"; });

TEST_P(SharedScratchTest, ServesWhenNobodyPreparedIt) {
  EXPECT_TRUE(TryScratch().ok()) << TryScratch().ToString();
  EXPECT_EQ(os::SystemFileSystem().Stat(ours_)->mode, 0700u);
}

TEST_P(SharedScratchTest, AFolderThatAnotherUserMadeIsRefused) {
  ASSERT_TRUE(os::testing::AsAnotherUser([&] { return mkdir(ours_.c_str(), 0777) == 0; }));
  const Status refused = TryScratch();
  EXPECT_EQ(refused.code(), Code::kPermission);
  EXPECT_NE(refused.message().find(ours_ + " belongs to user 65534 (mode 0777)"), std::string::npos) << refused.message();
  EXPECT_TRUE(os::SystemFileSystem().List(ours_)->empty()) << "nothing is put there";
}

TEST_P(SharedScratchTest, ALinkThatAnotherUserMadeIsRefused) {
  const os::testing::TemporaryFolder elsewhere;  // ours, closed to others, but meant for something else
  const std::string precious = elsewhere / "slot-000000";
  ASSERT_TRUE(os::WriteFileDurably(os::SystemFileSystem(), precious, "precious", "test").ok());
  ASSERT_TRUE(os::testing::AsAnotherUser([&] { return symlink(elsewhere.path().c_str(), ours_.c_str()) == 0; }));
  const Status refused = TryScratch();
  EXPECT_EQ(refused.code(), Code::kPermission) << refused.ToString();
  EXPECT_NE(refused.message().find("symbolic link (user 65534"), std::string::npos) << refused.message();
  EXPECT_EQ(os::SystemFileSystem().List(elsewhere.path())->size(), 1u);
  EXPECT_EQ(*os::ReadFile(os::SystemFileSystem(), precious, 100), "precious");
}

}  // namespace
}  // namespace kedge
