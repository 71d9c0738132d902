// A rank's checkpoints straight into the store, whole and in parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "client/checkpoint/checkpointer.h"
#include "client/testing/stored.h"
#include "os/testing/simulated_file_system.h"
#include "store/versions.h"

namespace kedge::client {
namespace {

using os::testing::Call;
using os::testing::CallsOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StoredTest;

class CheckpointerTest : public StoredTest {
 protected:
  CheckpointerTest() {
    for (const int id : {1, 2, 3}) {
      EXPECT_TRUE(core_->regions.current().Protect(id, memory_.data(), memory_.size(), sizeof(double), nullptr).ok());
    }
  }
  Status Part(kedge_selection selection, const std::vector<int>& ids = {}) {
    return checkpointer_.Part(selection, ids.data(), ids.size());
  }
  // The regions of that version in the store, in the order in which they were captured.
  std::vector<int32_t> Stored(int64_t version) {
    const auto newest = NewestAtOrBelow(catalog(), "job", "wave", version);
    EXPECT_TRUE(newest.ok()) << newest.status().ToString();
    if (!newest.ok() || newest->generation.version != version) return {};
    std::vector<int32_t> ids;
    const StoredImage image = ReadImage(catalog(), newest->generation, 0).value();
    for (const Region& region : image.record.regions) ids.push_back(region.id);
    return ids;
  }

  std::array<double, 100> memory_{};
  std::unique_lock<std::mutex> lock_{core_->mutex};
  Checkpointer checkpointer_{core_.get(), &ledger_, &session_, "/files"};
};

TEST_F(CheckpointerTest, PartsTakeEachRegionOnceAndARefusedSelectionTakesNone) {
  EXPECT_EQ(Part(KEDGE_ALL).code(), Code::kFailedPrecondition) << "nothing has begun";
  ASSERT_TRUE(checkpointer_.Begin(lock_, "wave", 1, false).ok());
  EXPECT_EQ(Part(KEDGE_SOME, {2, 4}).code(), Code::kNotFound);
  ASSERT_TRUE(Part(KEDGE_SOME, {2}).ok()) << "the refused selection has not taken it";
  const Status twice = Part(KEDGE_SOME, {3, 2});
  EXPECT_EQ(twice.code(), Code::kInvalidArgument);
  EXPECT_THAT(twice.message(), HasSubstr("region 2 is in this checkpoint already"));
  ASSERT_TRUE(Part(KEDGE_REST).ok());
  ASSERT_TRUE(checkpointer_.End(true).ok());
  EXPECT_THAT(Stored(1), ElementsAre(2, 1, 3));
  // The next image takes all of them again.
  ASSERT_TRUE(checkpointer_.Whole(lock_, "wave", 2, false).ok());
  EXPECT_THAT(Stored(2), ElementsAre(1, 2, 3));
  EXPECT_EQ(core_->statistics.checkpoints_inline, 2u);
}

TEST_F(CheckpointerTest, WhatIsGivenUpLeavesNothingAndTheNextOneWorks) {
  ASSERT_TRUE(checkpointer_.Begin(lock_, "wave", 1, false).ok());
  ASSERT_TRUE(Part(KEDGE_ALL).ok());
  ASSERT_TRUE(checkpointer_.End(false).ok());
  EXPECT_FALSE(checkpointer_.active());
  fs_.faults().Add({.calls = CallsOf(Call::kPwrite), .count = 1, .errno_value = EIO});
  EXPECT_EQ(checkpointer_.Whole(lock_, "wave", 1, false).code(), Code::kIo);
  EXPECT_EQ(NewestAtOrBelow(catalog(), "job", "wave", -1).status().code(), Code::kNotFound);
  EXPECT_EQ(core_->statistics.checkpoints, 0u);
  ASSERT_TRUE(checkpointer_.Whole(lock_, "wave", 1, false).ok());
  EXPECT_THAT(Stored(1), ElementsAre(1, 2, 3));
  EXPECT_EQ(ledger_.Newest()->generation.take, 3u) << "each call was counted";
}

}  // namespace
}  // namespace kedge::client
