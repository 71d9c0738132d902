// What every policy must keep (over random loads), and what fastest-with-room adds.
#include "placement/policy.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "base/testing/manual_clock.h"

namespace kedge {
namespace {

using Kind = PlaceDecision::Kind;

TierLoad Tier(uint32_t free, uint32_t evictable, uint32_t flushing) {
  return TierLoad{true, 16, free, evictable, 0, flushing, 1 << 20};
}

class Policy : public ::testing::Test {
 protected:
  PlaceDecision Place(const std::vector<TierLoad>& tiers, uint64_t bytes = 4096) {
    return policy_->Place(NodeLoad{tiers, 0, 0}, bytes);
  }
  testing::ManualClock clock_;
  std::unique_ptr<PlacementPolicy> policy_ = MakePlacementPolicy("fastest-with-room", clock_);
};

TEST_F(Policy, UnknownNamesAreRefused) {
  EXPECT_EQ(MakePlacementPolicy("psychic", clock_), nullptr);
}

TEST_F(Policy, FastestWithRoomElseNextElseWaitElseThrough) {
  EXPECT_EQ(Place({Tier(1, 0, 0), Tier(9, 0, 0)}).tier, 0u);
  EXPECT_EQ(Place({Tier(0, 1, 0), Tier(9, 0, 0)}).tier, 0u) << "what may go makes room";
  EXPECT_EQ(Place({Tier(0, 0, 5), Tier(9, 0, 0)}).tier, 1u) << "the next tier before a wait";
  EXPECT_EQ(Place({Tier(0, 0, 5), Tier(0, 0, 0)}).kind, Kind::kWait);
  EXPECT_EQ(Place({Tier(0, 0, 0), Tier(0, 0, 0)}).kind, Kind::kThrough) << "no wait without a flush that can free";
  EXPECT_EQ(Place({}).kind, Kind::kThrough);
  TierLoad lost = Tier(5, 5, 5);
  lost.present = false;
  EXPECT_EQ(Place({lost}).kind, Kind::kThrough);
  EXPECT_EQ(Place({Tier(5, 0, 0)}, 2 << 20).kind, Kind::kThrough) << "greater than a slot";
}

TEST_F(Policy, FlushesGoInOrderOfArrival) {
  std::vector<FlushCandidate> candidates = {{0, 7, 1}, {1, 3, 1}, {2, 5, 1}};
  EXPECT_EQ(policy_->NextFlush(candidates), 1u);
}

TEST_F(Policy, NeverATierWithoutRoomAndNeverAWaitWithoutAFlush) {
  Random random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<TierLoad> tiers(random.Below(5));
    bool can_free = false, has_room = false;
    for (TierLoad& tier : tiers) {
      tier = Tier(static_cast<uint32_t>(random.Below(2)), static_cast<uint32_t>(random.Below(2)),
                  static_cast<uint32_t>(random.Below(3)));
      tier.present = random.Chance(0.8);
      has_room = has_room || tier.HasRoom();
      can_free = can_free || (tier.present && tier.flushing_chunks > 0);
    }
    PlaceDecision decision = Place(tiers);
    if (decision.kind == Kind::kTier) {
      ASSERT_LT(decision.tier, tiers.size());
      ASSERT_TRUE(tiers[decision.tier].HasRoom());
    } else {
      ASSERT_FALSE(has_room);
      ASSERT_EQ(decision.kind == Kind::kWait, can_free);
    }
  }
}

}  // namespace
}  // namespace kedge
