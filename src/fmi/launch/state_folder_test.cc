#include "fmi/launch/state_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "os/testing/temporary_folder.h"

namespace kedge::fmi {
namespace {

namespace fs = std::filesystem;

JobState StateIn(uint32_t epoch) {
  JobState state;
  state.options.command = {"app"};
  state.nodes.resize(1);
  state.ranks.resize(1);
  state.epoch = epoch;
  return state;
}

class AStateFolder : public ::testing::Test {
 protected:
  StateFolder Created() {
    auto created = StateFolder::Create(path);
    EXPECT_TRUE(created.ok()) << created.status().ToString();
    return std::move(*created);
  }

  const os::testing::TemporaryFolder folder;
  const std::string path = folder / "jobs/app";
};

TEST_F(AStateFolder, IsTheUsersAlone) {
  const StateFolder created = Created();
  ASSERT_TRUE(created.Write(StateIn(1)).ok());
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  for (const auto& entry : fs::directory_iterator(path)) {
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write) << entry.path();
  }
}

TEST_F(AStateFolder, IsFollowedByOneOfSeveralAtATime) {
  {
    const StateFolder first = Created();
    ASSERT_TRUE(first.Write(StateIn(3)).ok());
    EXPECT_EQ(StateFolder::Create(path).status().code(), Code::kAlreadyExists);
    EXPECT_TRUE(StateFolder::IsHeld(path).value());
    EXPECT_FALSE(first.IsReplaced());
  }
  EXPECT_FALSE(StateFolder::IsHeld(path).value()) << "its process has died";
  const auto second = StateFolder::Claim(path);
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_TRUE(StateFolder::IsHeld(path).value());
  EXPECT_EQ(second->number(), 2U);
  EXPECT_EQ(second->Read()->epoch, 3U) << "what the first has written, as long as the second has not";
  ASSERT_TRUE(second->Write(StateIn(4)).ok());
  const auto third = StateFolder::Claim(path);
  ASSERT_TRUE(third.ok());
  EXPECT_TRUE(second->IsReplaced());
  EXPECT_TRUE(third->secret() == second->secret());
  ASSERT_TRUE(second->Write(StateIn(5)).ok());
  ASSERT_TRUE(third->Write(StateIn(6)).ok());
  EXPECT_EQ(third->Read()->epoch, 6U);
}

TEST_F(AStateFolder, IsGoneWhenTheJobHasEnded) {
  Created().Remove();
  EXPECT_FALSE(fs::exists(fs::path(path).parent_path()));
  EXPECT_EQ(StateFolder::Claim(path).status().code(), Code::kNotFound);
}

TEST_F(AStateFolder, IsRemovedOnlyWhenNobodyHoldsIt) {
  {
    const StateFolder held = Created();
    StateFolder::RemoveLeft(path);
    EXPECT_TRUE(fs::exists(path));
  }
  StateFolder::RemoveLeft(path);
  EXPECT_FALSE(fs::exists(path));
  StateFolder::RemoveLeft(path);
}

TEST_F(AStateFolder, IsNoneOfAnybodyElse) {
  fs::create_directories(path + "/photos");
  fs::permissions(path, fs::perms::owner_all);
  EXPECT_EQ(StateFolder::Create(path).status().code(), Code::kAlreadyExists);
  EXPECT_FALSE(StateFolder::IsHeld(path).value());
  EXPECT_EQ(StateFolder::Claim(path).status().code(), Code::kMismatch);
  StateFolder::RemoveLeft(path);
  EXPECT_TRUE(fs::exists(path + "/photos"));
}

}  // namespace
}  // namespace kedge::fmi
