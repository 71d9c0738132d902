#include "agent/protect/protect_again.h"

#include <gtest/gtest.h>

#include <utility>

#include "agent/protect/node_level.h"
#include "agent/tables/image.h"
#include "agent/testing/protected_job.h"

namespace kedge {
namespace {

// A version of an earlier attempt whose rank 0 has its image here, which the store has.
Version& PutHeld(testing::ProtectedJob& nodes) {
  Version& version = nodes.Put(1);
  version.to_node = false;
  auto image = std::make_unique<Image>();
  image->version = &version;
  image->ended = image->is_saved = true;
  image->flush = FlushState::kStored;
  version.images[0] = std::move(image);
  return version;
}

class ProtectAgainTest : public ::testing::Test {
 protected:
  ProtectAgainTest() {
    nodes_.job().members.attempt = 2;
    nodes_->core().events().image_missed = [this](Job&, const Generation&, uint32_t, const BringOptions& options,
                                                  std::function<void(Status)> done) {
      EXPECT_TRUE(options.from_store);
      done(brought_);
    };
  }
  void Restore() { nodes_->protect_again().OnRestored(nodes_.job(), nodes_.GenerationOf(1), 0); }

  testing::ProtectedJob nodes_{2};
  Status brought_;
};

TEST_F(ProtectAgainTest, WhatTheJobGoesOnFromBeginsAnew) {
  Version& version = PutHeld(nodes_);
  version.at_node = true;
  Restore();
  EXPECT_TRUE(version.restored);
  EXPECT_FALSE(version.at_node);
  EXPECT_TRUE(version.IsOwedToNodes());
  EXPECT_NE(version.protection, nullptr);
}

TEST_F(ProtectAgainTest, AnotherNumberOfRanksIsNotProtectedAgain) {
  Version& version = PutHeld(nodes_);
  version.ranks = 3;
  version.at_node = true;
  Restore();
  EXPECT_FALSE(version.restored);
  EXPECT_TRUE(version.at_node);
}

TEST_F(ProtectAgainTest, WhatFailedIsNotTriedASecondTimeInTheAttempt) {
  Version& first = PutHeld(nodes_);
  Restore();
  first.images.clear();
  nodes_->node_level().Fail(first, Status(Code::kIo, "a device failed"));
  // All that this node had of it goes, and another rank's image comes.
  Version& second = PutHeld(nodes_);
  Restore();
  EXPECT_TRUE(second.restored);
  EXPECT_FALSE(second.IsOwedToNodes());
  EXPECT_EQ(second.node_failure.code(), Code::kIncomplete);
  EXPECT_NE(second.node_failure.message().find("has not reached level node: node local: a device failed"), std::string::npos)
      << second.node_failure.message();
  nodes_.job().members.attempt = 3;
  Version& third = PutHeld(nodes_);
  Restore();
  EXPECT_TRUE(third.IsOwedToNodes()) << third.node_failure.message();
}

TEST_F(ProtectAgainTest, AnImageThatDoesNotComeIsNamedToTheNodesOtherRanks) {
  brought_ = Status(Code::kLost, "no copy of it is left");
  Restore();
  brought_ = Status::Ok();
  Version& version = PutHeld(nodes_);
  Restore();
  EXPECT_NE(version.node_failure.message().find("rank 0's image does not come to node local: no copy of it is left"),
            std::string::npos)
      << version.node_failure.message();
}

}  // namespace
}  // namespace kedge
