// What one rank restores from the store, whole and in parts.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "client/checkpoint/checkpointer.h"
#include "client/restart/restarter.h"
#include "client/testing/stored.h"
#include "store/versions.h"

namespace kedge::client {
namespace {

using testing::StoredTest;

class RestarterTest : public StoredTest {
 protected:
  static constexpr int kRegions = 3;

  RestarterTest() {
    for (int id = 0; id < kRegions; ++id) {
      EXPECT_TRUE(core_->regions.current().Protect(id, &memory_[static_cast<size_t>(id)], 1, sizeof(double), nullptr).ok());
    }
  }
  // Whose regions hold `value` each.
  void Take(int64_t version, double value) {
    memory_.fill(value);
    std::unique_lock lock(core_->mutex);
    const Status status = checkpointer_.Whole(lock, "wave", version, false);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  Status Part(kedge_selection selection, const std::vector<int>& ids = {}) {
    return restarter_.Part(selection, ids.data(), ids.size());
  }
  using Memory = std::array<double, kRegions>;

  Memory memory_{};
  Checkpointer checkpointer_{core_.get(), &ledger_, &session_, "/files"};
  Restarter restarter_{core_.get(), &ledger_, &session_, "/files"};
};

TEST_F(RestarterTest, TheNewestUpToABoundComesBackAndTheJobGoesOnFromIt) {
  EXPECT_EQ(restarter_.Whole("wave", -1).status().code(), Code::kNotFound);
  Take(1, 1.5);
  Take(2, 2.5);
  memory_.fill(0);
  EXPECT_EQ(restarter_.Newest("wave", -1).value(), 2);
  EXPECT_EQ(memory_, Memory{}) << "to ask restores nothing";
  EXPECT_EQ(restarter_.Whole("wave", 1).value(), 1);
  EXPECT_EQ(memory_, (Memory{1.5, 1.5, 1.5}));
  EXPECT_EQ(NewestAtOrBelow(catalog(), "job", "wave", -1)->generation.version, 1) << "it has left the newer one behind";
  EXPECT_EQ(core_->statistics.corrupt_copies, 0u);
}

TEST_F(RestarterTest, PartsRestoreWhatIsSelectedAndARefusedSelectionNothing) {
  Take(1, 1.5);
  memory_.fill(0);
  EXPECT_EQ(Part(KEDGE_ALL).code(), Code::kFailedPrecondition) << "nothing has begun";
  ASSERT_TRUE(restarter_.Begin("wave", 1, Restarter::Purpose::kRead).ok());
  EXPECT_EQ(Part(KEDGE_SOME, {1, 7}).code(), Code::kNotFound);
  EXPECT_EQ(memory_, Memory{});
  ASSERT_TRUE(Part(KEDGE_SOME, {1}).ok());
  EXPECT_EQ(memory_, (Memory{0, 1.5, 0}));
  memory_[1] = 4;
  ASSERT_TRUE(Part(KEDGE_REST).ok());
  EXPECT_EQ(memory_, (Memory{1.5, 4, 1.5})) << "what is there already stays";
  ASSERT_TRUE(Part(KEDGE_ALL).ok());
  EXPECT_EQ(memory_, (Memory{1.5, 1.5, 1.5}));
  ASSERT_TRUE(restarter_.End(true).ok());
  EXPECT_FALSE(restarter_.active());
}

}  // namespace
}  // namespace kedge::client
