// What the agent takes for itself: it has room as long as the node has, however slowly memory is made.
#include "agent/space/own_slots.h"

#include <gtest/gtest.h>

#include "agent/daemon/agent.h"
#include "agent/space/memory_ledger.h"
#include "agent/space/tiers.h"
#include "agent/testing/local_agent.h"
#include "os/testing/temporary_folder.h"

namespace kedge {
namespace {

constexpr uint32_t kOwnTestSlots = 8;
constexpr uint64_t kOwnTestSlotBytes = uint64_t{8} << 20;
constexpr uint64_t kOwnTestBytes = uint64_t{1} << 20;

class OwnSlotsTest : public ::testing::Test {
 protected:
  OwnSlotsTest() {
    JobKeys keys;
    keys.scratch = folder_.path();
    tiers_ = agent_->tiers().ForJob(keys).value();
    // What the pool has spare counts under the same ceiling.
    for (uint32_t slot = 0; slot < kOwnTestSlots; ++slot) {
      EXPECT_TRUE(agent_.pool().tier->Release(slot).ok());
      agent_.pool().space->SetBacked(slot, 0);
    }
  }

  // As one who asks for all that it needs, and holds none of it until there is all.
  std::vector<OwnRange> TryToTake(int parts) {
    agent_->memory().BeginAsking();
    std::vector<OwnRange> ranges;
    for (int i = 0; i < parts; ++i) {
      if (auto range = agent_->own_slots().Take(tiers_, kOwnTestBytes); range.has_value()) ranges.push_back(*range);
    }
    if (ranges.size() == static_cast<size_t>(parts)) return ranges;
    EXPECT_TRUE(agent_->memory().IsMaking(tiers_)) << "no room, though there is";
    agent_->own_slots().GiveBackAll(ranges);
    return {};
  }

  const os::testing::TemporaryFolder folder_{"/dev/shm"};
  testing::LocalAgent agent_{kOwnTestSlots, kOwnTestSlotBytes};
  std::vector<TierUnit*> tiers_;
};

TEST_F(OwnSlotsTest, WhoAsksAgainWhileMemoryIsMadeTakesNoMoreOfIt) {
  constexpr int kParts = 7;
  std::vector<OwnRange> ranges;
  EXPECT_TRUE(agent_.TurnUntil([&] {
    for (int i = 0; i < 10 && ranges.empty(); ++i) ranges = TryToTake(kParts);
    return !ranges.empty() || HasFailure();
  }));
  // A slot for each, before there was any, and one that has grown.
  EXPECT_LE(agent_->memory().backed_bytes(), kParts * 2 * kOwnTestBytes + kOwnTestSlotBytes);
  agent_->own_slots().ReleaseAll(ranges);
}

TEST_F(OwnSlotsTest, ASlotThatCannotGrowIsFollowedByAnother) {
  std::vector<OwnRange> ranges;
  EXPECT_TRUE(agent_.TurnUntil([&] { return !(ranges = TryToTake(2)).empty(); }));
  TierUnit& unit = *ranges[0].unit;
  ASSERT_LT(unit.space->BackedIn(ranges[0].slot), kOwnTestSlotBytes);
  // All other memory is spare, in slots of another tier.
  for (uint32_t slot = 1; slot < kOwnTestSlots; ++slot) agent_.pool().space->SetBacked(slot, kOwnTestSlotBytes);
  agent_.pool().space->SetBacked(0, static_cast<uint64_t>(agent_->memory().Room().bytes));
  std::vector<OwnRange> more;
  EXPECT_TRUE(agent_.TurnUntil([&] { return !(more = TryToTake(2)).empty() || HasFailure(); }));
  EXPECT_LE(agent_->memory().backed_bytes(), agent_->memory().ceiling_bytes());
  agent_->own_slots().ReleaseAll(ranges);
  agent_->own_slots().ReleaseAll(more);
}

// A place that is given back may have others behind it.
TEST_F(OwnSlotsTest, WhatIsGivenBackIsNobodyElsesPlace) {
  std::vector<OwnRange> ranges;
  EXPECT_TRUE(agent_.TurnUntil([&] { return !(ranges = TryToTake(2)).empty(); }));
  EXPECT_FALSE(agent_->own_slots().Take(tiers_, 2 * kOwnTestBytes).has_value()) << "the slot grows";
  agent_->own_slots().GiveBack(ranges[0]);
  std::optional<OwnRange> next;
  EXPECT_TRUE(agent_.TurnUntil([&] { return (next = agent_->own_slots().Take(tiers_, kOwnTestBytes)).has_value(); }));
  EXPECT_TRUE(next->slot != ranges[1].slot || next->offset >= ranges[1].offset + ranges[1].bytes);
  agent_->own_slots().Release(ranges[1]);
  agent_->own_slots().Release(*next);
}

}  // namespace
}  // namespace kedge
