// What every policy must keep, over random loads; what each of them adds; and the queue that asks them.
#include "placement/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/manual_clock.h"
#include "placement/assignment_queue.h"

namespace kedge {
namespace {

using Kind = PlaceDecision::Kind;

constexpr uint64_t kChunk = 1 << 20;
constexpr double kMega = 1 << 20;

TierLoad Tier(uint32_t free, uint32_t evictable, uint32_t flushing, uint32_t writers = 0,
              const ThroughputCurve* curve = nullptr) {
  TierLoad tier;
  tier.slots = 64;
  tier.free_slots = free;
  tier.evictable_slots = evictable;
  tier.flushing_chunks = flushing;
  tier.writers = writers;
  tier.slot_bytes = kChunk;
  tier.curve = curve;
  return tier;
}

ThroughputCurve Curve(std::vector<ThroughputSample> samples) {
  return ThroughputCurve::Fit(std::move(samples)).value();
}

// A cache of 1000 chunks a second however many write, and a disk that is best with 4 writers.
const ThroughputCurve kCache = Curve({{1, 1000 * kMega}});
const ThroughputCurve kDisk = Curve({{1, 10 * kMega}, {4, 40 * kMega}, {8, 20 * kMega}, {16, 10 * kMega}});

class PolicyFixture : public ::testing::Test {
 protected:
  void Use(std::string_view name) { policy_ = MakePlacementPolicy(name, clock_); }
  PlaceDecision Place(const std::vector<TierLoad>& tiers, NodeLoad load = {}, uint64_t bytes = kChunk) {
    load.tiers = tiers;
    load.waiting = std::max(load.waiting, 1u);
    load.waiting_bytes = load.waiting * bytes;
    if (load.head_since_ns == 0) load.head_since_ns = clock_.NowNs();
    return policy_->Place(load, bytes);
  }
  // A flush achieves so many chunks a second, and all together so many.
  static NodeLoad Flushing(double one, double all, uint32_t in_flight, uint32_t waiting = 1) {
    NodeLoad load;
    load.flush_bytes_per_second = static_cast<uint64_t>(one * kMega);
    load.flush_total_bytes_per_second = static_cast<uint64_t>(all * kMega);
    load.flushes_in_flight = in_flight;
    load.waiting = waiting;
    return load;
  }
  testing::ManualClock clock_{1'000'000'000};
  std::unique_ptr<PlacementPolicy> policy_;
};

TEST_F(PolicyFixture, UnknownNamesAreRefusedAndTheDefaultIsAdaptive) {
  EXPECT_EQ(MakePlacementPolicy("psychic", clock_), nullptr);
  EXPECT_EQ(PlacementPolicyNames().front(), "adaptive");
  for (auto name : PlacementPolicyNames()) EXPECT_NE(MakePlacementPolicy(name, clock_), nullptr) << name;
}

class Every : public PolicyFixture, public ::testing::WithParamInterface<std::string_view> {};

// Never a tier without room; never a wait that nothing ends; through only when no tier that it uses has room.
TEST_P(Every, PlacesOnlyWhereThereIsRoomAndWaitsOnlyForWhatComes) {
  Use(GetParam());
  Random random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<TierLoad> tiers(random.Below(5));
    bool can_free = false, has_room = false;
    NodeLoad load = Flushing(random.Unit() * 100, random.Unit() * 1000, static_cast<uint32_t>(random.Below(4)));
    for (TierLoad& tier : tiers) {
      tier = Tier(static_cast<uint32_t>(random.Below(2)), static_cast<uint32_t>(random.Below(2)),
                  static_cast<uint32_t>(random.Below(3)), static_cast<uint32_t>(random.Below(40)),
                  random.Chance(0.3)   ? nullptr
                  : random.Chance(0.5) ? &kCache
                                       : &kDisk);
      tier.present = random.Chance(0.8);
      tier.flushes_in_flight = tier.flushing_chunks > 0 ? static_cast<uint32_t>(random.Below(2)) : 0;
      has_room = has_room || tier.HasRoom();
      can_free = can_free || tier.FlushCanFree();
    }
    load.waiting = 1 + static_cast<uint32_t>(random.Below(50));
    load.head_since_ns = clock_.NowNs() - static_cast<int64_t>(random.Below(3'000'000'000));
    const PlaceDecision decision = Place(tiers, load);
    if (decision.kind == Kind::kTier) {
      ASSERT_LT(decision.tier, tiers.size());
      ASSERT_TRUE(tiers[decision.tier].HasRoom());
    } else if (decision.kind == Kind::kWait) {
      ASSERT_TRUE(can_free || load.flushes_in_flight > 0 || (has_room && decision.ask_again > Duration::zero()));
    } else if (GetParam() == "adaptive" || GetParam() == "paper" || GetParam() == "naive") {
      ASSERT_FALSE(has_room);
      ASSERT_FALSE(can_free);
    }
  }
}

TEST_P(Every, GreaterThanASlotAndLostTiersGoThrough) {
  Use(GetParam());
  EXPECT_EQ(Place({}).kind, Kind::kThrough);
  EXPECT_EQ(Place({Tier(5, 0, 0), Tier(5, 0, 0)}, {}, 2 * kChunk).kind, Kind::kThrough);
  TierLoad lost = Tier(5, 5, 5);
  lost.present = false;
  EXPECT_EQ(Place({lost, lost}).kind, Kind::kThrough);
}

TEST_P(Every, FlushesTheOldestWhenNobodyWaits) {
  Use(GetParam());
  const std::vector<TierLoad> tiers = {Tier(0, 0, 2), Tier(9, 0, 2)};
  NodeLoad load;
  load.tiers = tiers;
  const std::vector<FlushCandidate> candidates = {{0, 7, 1}, {1, 3, 1}, {FlushCandidate::kNoTier, 5, 1}};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(policy_->NextFlush(load, candidates), 1u);
}

INSTANTIATE_TEST_SUITE_P(Policies, Every, ::testing::ValuesIn(PlacementPolicyNames()), [](const auto& name) {
  std::string text(name.param);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
});

class Naive : public PolicyFixture {};

TEST_F(Naive, FastestWithRoomElseNextElseWaitElseThrough) {
  Use("naive");
  EXPECT_EQ(Place({Tier(1, 0, 0), Tier(9, 0, 0)}).tier, 0u);
  EXPECT_EQ(Place({Tier(0, 1, 0), Tier(9, 0, 0)}).tier, 0u) << "what may go makes room";
  EXPECT_EQ(Place({Tier(0, 0, 5), Tier(9, 0, 0)}).tier, 1u) << "the next tier before a wait";
  EXPECT_EQ(Place({Tier(0, 0, 5), Tier(0, 0, 0)}).kind, Kind::kWait);
  EXPECT_EQ(Place({Tier(0, 0, 0), Tier(0, 0, 0)}).kind, Kind::kThrough) << "no wait without a flush that can free";
}

class OneTier : public PolicyFixture {};

TEST_F(OneTier, CacheOnlyAndSsdOnlyUseTheirs) {
  Use("cache-only");
  EXPECT_EQ(Place({Tier(1, 0, 0), Tier(9, 0, 0)}).tier, 0u);
  EXPECT_EQ(Place({Tier(0, 0, 1), Tier(9, 0, 0)}).kind, Kind::kWait);
  EXPECT_EQ(Place({Tier(0, 0, 0), Tier(9, 0, 0)}).kind, Kind::kThrough);
  Use("ssd-only");
  EXPECT_EQ(Place({Tier(1, 0, 0), Tier(9, 0, 0)}).tier, 1u);
  EXPECT_EQ(Place({Tier(1, 0, 0), Tier(0, 0, 1)}).kind, Kind::kWait);
  EXPECT_EQ(Place({Tier(1, 0, 0)}).tier, 0u) << "the only one there is";
}

class Paper : public PolicyFixture {
 protected:
  void SetUp() override { Use("paper"); }
};

TEST_F(Paper, TakesTheFastestPredictedThatBeatsAFlush) {
  EXPECT_EQ(Place({Tier(1, 0, 0, 99, &kCache), Tier(9, 0, 0, 0, &kDisk)}).tier, 0u) << "10 a second each on both: the first";
  EXPECT_EQ(Place({Tier(1, 0, 0, 150, &kCache), Tier(9, 0, 0, 0, &kDisk)}).tier, 1u) << "fewer writers on a slower tier";
  EXPECT_EQ(Place({Tier(0, 0, 4, 0, &kCache), Tier(9, 0, 0, 0, &kDisk)}, Flushing(5, 20, 4)).tier, 1u) << "faster than a flush";
  EXPECT_EQ(Place({Tier(0, 0, 4, 0, &kCache), Tier(9, 0, 0, 7, &kDisk)}, Flushing(5, 20, 4)).kind, Kind::kWait) << "slower";
}

TEST_F(Paper, WithoutAFlushUnderWayItDoesNotWait) {
  EXPECT_EQ(Place({Tier(0, 0, 0, 0, &kCache), Tier(9, 0, 0, 15, &kDisk)}, Flushing(5, 20, 0)).tier, 1u);
  EXPECT_EQ(Place({Tier(0, 0, 0, 0, &kCache), Tier(9, 0, 0, 15, &kDisk)}).tier, 1u) << "nor before one is known";
}

class AdaptivePolicy : public PolicyFixture {
 protected:
  void SetUp() override { Use("adaptive"); }
  static TierLoad Full(uint32_t flushes_in_flight = 4) {
    TierLoad tier = Tier(0, 0, 8, 0, &kCache);
    tier.flushes_in_flight = flushes_in_flight;
    tier.backlog_bytes = (8 - flushes_in_flight) * kChunk;
    return tier;
  }
};

TEST_F(AdaptivePolicy, NoTierGetsMoreWritersThanItServesWell) {
  EXPECT_EQ(Place({Full(0), Tier(9, 0, 0, 3, &kDisk)}).tier, 1u) << "nothing is known of flushes yet";
  const PlaceDecision decision = Place({Full(0), Tier(9, 0, 0, 4, &kDisk)});
  EXPECT_EQ(decision.kind, Kind::kWait);
  EXPECT_GT(decision.ask_again, Duration::zero());
}

TEST_F(AdaptivePolicy, WaitsForASlotThatComesSooner) {
  EXPECT_EQ(Place({Full(), Tier(9, 0, 0, 0, &kDisk)}, Flushing(5, 20, 4)).kind, Kind::kWait) << "0.05 s against 0.1";
  EXPECT_EQ(Place({Full(), Tier(9, 0, 0, 0, &kDisk)}, Flushing(2, 8, 4)).tier, 1u) << "0.125 s against 0.1";
}

TEST_F(AdaptivePolicy, WaitsForAWriterWhenThatEndsSoonerThanAnyFlush) {
  static const ThroughputCurve kFlat = Curve({{1, 100 * kMega}});
  TierLoad full = Full();
  full.next_flush_seconds = 10;
  const PlaceDecision decision = Place({full, Tier(9, 0, 0, 1, &kFlat), Tier(9, 0, 0, 0, &kDisk)}, Flushing(0.1, 0.4, 4));
  EXPECT_EQ(decision.kind, Kind::kWait) << "a writer of the second ends in 0.01 s; the third would take 0.1";
  EXPECT_GT(decision.ask_again, Duration::zero());
}

// The cache's four slots are being written, 0.004 s each, and flushed then at 20 a second; other flushes are under way for 0.03
// s.
TEST_F(AdaptivePolicy, WaitsForASlotThatIsBeingWritten) {
  TierLoad written = Tier(0, 0, 0, 4, &kCache);
  TierLoad disk = Tier(9, 0, 4, 0, &kDisk);
  disk.flushes_in_flight = 1;
  disk.next_flush_seconds = 0.03;
  const PlaceDecision decision = Place({written, disk}, Flushing(20, 20, 1));
  EXPECT_EQ(decision.kind, Kind::kWait) << "0.084 s against 0.1";
  EXPECT_GT(decision.ask_again, Duration::zero()) << "a writer may be stopped";
  disk.next_flush_seconds = 0.06;
  EXPECT_EQ(Place({written, disk}, Flushing(20, 20, 1)).tier, 1u) << "0.114 s";
}

TEST_F(AdaptivePolicy, ASlotIsNotFreedFasterThanItIsWritten) {
  static const ThroughputCurve kSlowCache = Curve({{1, 15 * kMega}});
  TierLoad full = Tier(0, 0, 1, 0, &kSlowCache);
  full.slots = 1;
  full.flushes_in_flight = 1;
  // The store would take a hundred a second, but one slot is filled 15 times a second.
  const auto with_waiting = [&](uint32_t waiting) {
    return Place({full, Tier(9, 0, 0, 0, &kDisk)}, Flushing(100, 100, 1, waiting));
  };
  EXPECT_EQ(with_waiting(2).kind, Kind::kWait) << "the other keeps the cache busy for 0.07 s";
  EXPECT_EQ(with_waiting(3).tier, 1u) << "0.13 s";
}

// Four writers get 40 together, one alone 1: those that wait may not follow.
TEST_F(AdaptivePolicy, WhereWritersHelpOneAnotherTheFirstIsTakenAtWhatHeGetsAlone) {
  static const ThroughputCurve kHelping = Curve({{1, kMega}, {4, 40 * kMega}, {8, 20 * kMega}});
  EXPECT_EQ(Place({Full(), Tier(9, 0, 0, 0, &kHelping)}, Flushing(5, 20, 4, 5)).kind, Kind::kWait)
      << "1 s, others have 0.2 s of work";
  EXPECT_EQ(Place({Full(), Tier(9, 0, 0, 0, &kHelping)}, Flushing(5, 20, 4, 30)).tier, 1u) << "1.5 s of work";
}

TEST_F(AdaptivePolicy, UsesTheSlowerTierWhenOthersKeepTheFasterBusy) {
  EXPECT_EQ(Place({Full(), Tier(9, 0, 0, 0, &kDisk)}, Flushing(5, 20, 4, 2)).kind, Kind::kWait) << "one other: 0.05 s of work";
  EXPECT_EQ(Place({Full(), Tier(9, 0, 0, 0, &kDisk)}, Flushing(5, 20, 4, 3)).tier, 1u) << "two others: 0.1 s of work";
}

// Nobody else has anything to write. The disk takes 0.1 s for the chunk, in which two slots come free.
TEST_F(AdaptivePolicy, UsesTheSlowerTierWhileTheStoreHasEnoughOfTheFaster) {
  const auto with_to_come = [&](uint64_t chunks, uint32_t flushes_in_flight) {
    NodeLoad load = Flushing(5, 20, 4);
    load.waiting_bytes_to_come = load.head_bytes_to_come = chunks * kChunk;
    return Place({Full(flushes_in_flight), Tier(9, 0, 0, 0, &kDisk)}, load);
  };
  EXPECT_EQ(with_to_come(3, 4).tier, 1u) << "four are queued, and three come after it: none is late";
  EXPECT_EQ(with_to_come(2, 4).kind, Kind::kWait) << "two would be there by then: it would be the last";
  EXPECT_EQ(with_to_come(100, 7).kind, Kind::kWait) << "with one queued the store would have nothing to do";
}

TEST_F(AdaptivePolicy, AStalledStoreSendsTheHeadOnAfterTheTimeThatItWouldTake) {
  NodeLoad load = Flushing(5, 20, 4);
  load.head_since_ns = clock_.NowNs();
  EXPECT_EQ(Place({Full(), Tier(9, 0, 0, 0, &kDisk)}, load).kind, Kind::kWait);
  clock_.Advance(std::chrono::milliseconds(101));
  EXPECT_EQ(Place({Full(), Tier(9, 0, 0, 0, &kDisk)}, load).tier, 1u);
}

TEST_F(AdaptivePolicy, WritersThatNeverEndDoNotHoldTheHeadForEver) {
  NodeLoad load = Flushing(5, 20, 4);
  load.head_since_ns = clock_.NowNs();
  clock_.Advance(std::chrono::seconds(20));
  EXPECT_EQ(Place({Full(), Tier(9, 0, 0, 16, &kDisk)}, load).tier, 1u);
}

TEST_F(AdaptivePolicy, WithoutCurvesItIsNaive) {
  EXPECT_EQ(Place({Tier(1, 0, 0, 50), Tier(9, 0, 0)}, Flushing(5, 20, 4)).tier, 0u);
  EXPECT_EQ(Place({Tier(0, 0, 5, 50), Tier(9, 0, 0, 50)}, Flushing(5, 20, 4)).tier, 1u);
}

TEST_F(AdaptivePolicy, FlushesFirstWhatFreesTheFullTier) {
  const std::vector<TierLoad> tiers = {Full(1), Tier(40, 0, 8, 0, &kDisk)};
  NodeLoad load = Flushing(5, 20, 1, 10);
  load.waiting_bytes = 10 * kChunk;
  load.tiers = tiers;
  const std::vector<FlushCandidate> both = {{0, 7, kChunk}, {1, 3, kChunk}};
  int oldest = 0;
  for (int i = 0; i < 320; ++i) oldest += policy_->NextFlush(load, both) == 1u;
  EXPECT_EQ(oldest, 10) << "one in 32 is the oldest, so that no chunk waits for ever";
}

TEST_F(AdaptivePolicy, HoldsBackFlushesThatFreeNothingWhileOneThatDoesIsUnderWay) {
  const std::vector<FlushCandidate> slow = {{1, 3, kChunk}};
  const auto first_of = [&](uint32_t cache_flushes, uint32_t waiting) {
    const std::vector<TierLoad> tiers = {Full(cache_flushes), Tier(40, 0, 8, 0, &kDisk)};
    NodeLoad load = Flushing(5, 20, cache_flushes, waiting);
    load.waiting_bytes = waiting * kChunk;
    load.tiers = tiers;
    return policy_->NextFlush(load, slow);
  };
  EXPECT_EQ(first_of(1, 10), std::nullopt);
  EXPECT_EQ(first_of(0, 10), 0u) << "the store is not left idle for it";
  EXPECT_EQ(first_of(1, 0), 0u) << "nobody waits";
  int flushed = 0;
  for (int i = 0; i < 320; ++i) flushed += first_of(1, 10).has_value();
  EXPECT_EQ(flushed, 10) << "one in 32 goes all the same";
}

// ---- The queue ----

class QueueHost final : public AssignmentQueue::Host {
 public:
  bool IsThere(uint64_t writer) override { return !gone.contains(writer); }
  bool SameTiers(uint64_t writer, uint64_t other) override { return writer % 2 == other % 2; }
  NodeLoad LoadFor(const AssignmentQueue::Request& request, std::vector<TierLoad>* tiers) override {
    *tiers = {Tier(room[request.writer % 2], 0, 1), Tier(0, 0, 1)};
    return {};
  }
  AssignmentQueue::Outcome Assign(const AssignmentQueue::Request& request, size_t) override {
    if (no_space) return AssignmentQueue::Outcome::kNoSpace;
    --room[request.writer % 2];
    served.push_back(request.number);
    return AssignmentQueue::Outcome::kAssigned;
  }
  AssignmentQueue::Refusal NotPlaced(AssignmentQueue::Request& request, const PlaceDecision&) override {
    if (releasable == 0) return AssignmentQueue::Refusal::kStays;
    --releasable;
    ++room[request.writer % 2];
    return AssignmentQueue::Refusal::kAskNow;
  }
  void AskAgain(Duration) override {}

  uint32_t room[2] = {0, 0};
  bool no_space = false;
  int releasable = 0;
  std::set<uint64_t> gone;
  std::vector<uint64_t> served;
};

class Queue : public PolicyFixture {
 protected:
  void Add(uint64_t writer, uint64_t number) {
    AssignmentQueue::Request request;
    request.writer = writer;
    request.number = number;
    request.bytes = kChunk;
    queue_.Add(request);
  }
  void SetUp() override { Use("naive"); }
  QueueHost host_;
  AssignmentQueue queue_{host_, clock_};
};

TEST_F(Queue, IsFirstInFirstOutAmongThoseWithTheSameTiers) {
  for (uint64_t i = 0; i < 6; ++i) Add(i, i);
  host_.room[1] = 2;
  queue_.Pump(*policy_);
  EXPECT_EQ(host_.served, (std::vector<uint64_t>{1, 3})) << "those with other tiers wait by themselves";
  host_.room[0] = 9;
  queue_.Pump(*policy_);
  EXPECT_EQ(host_.served, (std::vector<uint64_t>{1, 3, 0, 2, 4}));
  EXPECT_EQ(queue_.size(), 1u);
}

TEST_F(Queue, AsksAgainAtOnceWhenTheHostHasMadeRoom) {
  for (uint64_t i = 0; i < 6; i += 2) Add(i, i);
  host_.releasable = 2;
  queue_.Pump(*policy_);
  EXPECT_EQ(host_.served, (std::vector<uint64_t>{0, 2}));
}

TEST_F(Queue, ForgetsWhoIsGone) {
  for (uint64_t i = 0; i < 6; i += 2) Add(i, i);
  queue_.Drop(0);
  host_.gone = {2};
  host_.room[0] = 9;
  queue_.Pump(*policy_);
  EXPECT_EQ(host_.served, (std::vector<uint64_t>{4}));
}

TEST_F(Queue, ATierWithoutSpaceAfterAllIsLeftOutAndTheHeadStays) {
  Add(0, 0);
  host_.room[0] = 1;
  host_.no_space = true;
  queue_.Pump(*policy_);
  EXPECT_EQ(queue_.size(), 1u);
  host_.no_space = false;
  queue_.Pump(*policy_);
  EXPECT_EQ(queue_.size(), 0u);
}

}  // namespace
}  // namespace kedge
