// The queue and the policies under random curves and random, hostile flush patterns: whatever the devices do, nobody starves,
// first come is first served, no slot is claimed twice, and nobody waits when nothing is under way.
//
// Unlike in the scenarios, nothing here follows the curves that the policies believe: writes and flushes end in any order.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <set>

#include "base/random.h"
#include "base/testing/manual_clock.h"
#include "model/flush_meter.h"
#include "placement/assignment_queue.h"

namespace kedge {
namespace {

constexpr uint64_t kChunk = 64 << 20;

ThroughputCurve RandomCurve(Random& random) {
  std::vector<ThroughputSample> samples;
  uint32_t writers = 0;
  for (uint64_t i = 0, count = 1 + random.Below(8); i < count; ++i) {
    writers += 1 + static_cast<uint32_t>(random.Below(20));
    samples.push_back({writers, std::pow(10, 6 + 4 * random.Unit())});
  }
  return ThroughputCurve::Fit(std::move(samples)).value();
}

class Chaos final : private AssignmentQueue::Host {
 public:
  Chaos(uint64_t seed, std::string_view policy)
      : random_(seed), policy_(MakePlacementPolicy(policy, clock_)), queue_(*this, clock_), keeps_fifo_to_(0) {
    const size_t tiers = 1 + random_.Below(4);
    for (size_t i = 0; i < tiers; ++i) {
      tiers_.emplace_back();
      tiers_.back().slots.resize(random_.Below(8), false);
      if (random_.Chance(0.7)) tiers_.back().curve = RandomCurve(random_);
    }
    const uint64_t writers = 1 + random_.Below(24);
    for (uint64_t i = 0; i < writers; ++i) left_.push_back(1 + static_cast<uint32_t>(random_.Below(6)));
  }

  void Run() {
    for (uint64_t writer = 0; writer < left_.size(); ++writer) Ask(writer);
    Turn();
    while (served_ < asked_ || !writes_.empty() || Flushes() > 0) {
      ASSERT_LT(++steps_, 100000) << "somebody starves";
      // Who waits, waits for something.
      ASSERT_TRUE(!writes_.empty() || meter_.in_flight() > 0 || ask_again_ns_ > 0) << served_ << " of " << asked_;
      // A writer or a flush that hangs for a while is nothing unusual: any of what is under way ends next, or time passes.
      const uint64_t under_way = writes_.size() + flights_.size();
      if (ask_again_ns_ > 0 && (under_way == 0 || random_.Chance(0.2))) {
        clock_.Advance(Duration(std::max<int64_t>(0, ask_again_ns_ - clock_.NowNs())));
        ask_again_ns_ = 0;
      } else {
        clock_.Advance(Duration(static_cast<int64_t>(std::pow(10, 5 + 4.5 * random_.Unit()))));
        const uint64_t next = random_.Below(under_way);
        next < writes_.size() ? EndWrite(next) : EndFlush(next - writes_.size());
      }
      Turn();
    }
    for (uint32_t left : left_) ASSERT_EQ(left, 0u);
  }

 private:
  struct Tier {
    std::vector<bool> slots;  // claimed
    std::optional<ThroughputCurve> curve;
    uint32_t writers = 0;
    std::deque<std::pair<uint64_t, size_t>> queued;  // sequence and slot
    uint32_t flushing = 0;
  };
  struct Write {
    uint64_t writer;
    size_t tier;
    size_t slot;
  };
  struct Flight {
    uint64_t flush;
    size_t tier;
    size_t slot;
  };

  bool IsThere(uint64_t) override { return true; }
  bool SameTiers(uint64_t, uint64_t) override { return true; }
  NodeLoad LoadFor(const AssignmentQueue::Request&, std::vector<TierLoad>* loads) override { return Load(loads); }
  AssignmentQueue::Outcome Assign(const AssignmentQueue::Request& request, size_t index) override {
    Tier& tier = tiers_.at(index);
    const auto free = std::find(tier.slots.begin(), tier.slots.end(), false);
    EXPECT_NE(free, tier.slots.end()) << "a slot is claimed twice";
    if (free == tier.slots.end()) std::abort();
    *free = true;
    ++tier.writers;
    writes_.push_back({request.writer, index, static_cast<size_t>(free - tier.slots.begin())});
    Served(request);
    return AssignmentQueue::Outcome::kAssigned;
  }
  AssignmentQueue::Refusal NotPlaced(AssignmentQueue::Request& request, const PlaceDecision& decision) override {
    if (decision.kind == PlaceDecision::Kind::kWait) {
      // A flush that can free a slot is under way or queued, or the policy asks again by itself.
      EXPECT_TRUE(Flushes() > 0 || decision.ask_again > Duration::zero());
      return AssignmentQueue::Refusal::kStays;
    }
    Served(request);
    if (left_[request.writer] > 0) asks_.insert(request.writer);
    return AssignmentQueue::Refusal::kAnswered;
  }
  void AskAgain(Duration after) override {
    const int64_t due_ns = clock_.NowNs() + after.count();
    if (ask_again_ns_ == 0 || due_ns < ask_again_ns_) ask_again_ns_ = due_ns;
  }

  void Served(const AssignmentQueue::Request& request) {
    EXPECT_EQ(request.number, ++keeps_fifo_to_) << "somebody was served before the head";
    ++served_;
  }
  NodeLoad Load(std::vector<TierLoad>* loads) const {
    for (size_t i = 0; i < tiers_.size(); ++i) {
      const Tier& tier = tiers_[i];
      TierLoad load;
      load.slots = static_cast<uint32_t>(tier.slots.size());
      load.free_slots = static_cast<uint32_t>(std::count(tier.slots.begin(), tier.slots.end(), false));
      load.writers = tier.writers;
      load.flushing_chunks = tier.flushing;
      load.flushes_in_flight = meter_.InFlightOf(static_cast<uint32_t>(i));
      load.next_flush_seconds = meter_.SecondsToNextEndOf(static_cast<uint32_t>(i), clock_.NowNs());
      load.slot_bytes = kChunk;
      load.backlog_bytes = tier.queued.size() * kChunk;
      load.curve = tier.curve ? &*tier.curve : nullptr;
      loads->push_back(load);
    }
    NodeLoad load;
    load.tiers = *loads;
    load.flush_bytes_per_second = static_cast<uint64_t>(meter_.average());
    load.flush_total_bytes_per_second = static_cast<uint64_t>(meter_.total(clock_.NowNs()));
    load.flushes_in_flight = meter_.in_flight();
    queue_.AddWaiting(&load);
    return load;
  }
  uint32_t Flushes() const {
    uint32_t sum = 0;
    for (const Tier& tier : tiers_) sum += tier.flushing;
    return sum;
  }
  void Ask(uint64_t writer) {
    --left_[writer];
    AssignmentQueue::Request request;
    request.writer = writer;
    request.number = ++asked_;
    request.bytes = kChunk;
    request.bytes_to_come = random_.Chance(0.5) ? left_[writer] * kChunk : 0;  // it need not be known
    queue_.Add(request);
  }
  void Turn() {
    queue_.Pump(*policy_);
    while (!asks_.empty()) {  // those that were sent through to the store, at once
      const uint64_t writer = *asks_.begin();
      asks_.erase(asks_.begin());
      Ask(writer);
      queue_.Pump(*policy_);
    }
    Dispatch();
  }
  void EndWrite(size_t index) {
    const Write write = writes_[index];
    writes_.erase(writes_.begin() + static_cast<std::ptrdiff_t>(index));
    Tier& tier = tiers_[write.tier];
    --tier.writers;
    ++tier.flushing;
    tier.queued.emplace_back(++sequence_, write.slot);
    if (left_[write.writer] > 0) Ask(write.writer);
  }
  void Dispatch() {
    while (meter_.in_flight() < 3) {
      std::vector<FlushCandidate> candidates;
      for (size_t i = 0; i < tiers_.size(); ++i) {
        if (!tiers_[i].queued.empty()) candidates.push_back({i, tiers_[i].queued.front().first, kChunk});
      }
      if (candidates.empty()) return;
      std::vector<TierLoad> loads;
      const auto chosen = policy_->NextFlush(Load(&loads), candidates);
      ASSERT_TRUE(chosen || meter_.in_flight() > 0) << "all flushes are held back";
      if (!chosen) return;
      Tier& tier = tiers_[candidates.at(*chosen).tier];
      const size_t slot = tier.queued.front().second;
      tier.queued.pop_front();
      const auto number = static_cast<uint32_t>(candidates[*chosen].tier);
      flights_.push_back({meter_.Begin(kChunk, number, clock_.NowNs()), number, slot});
    }
  }
  void EndFlush(size_t index) {
    const Flight flight = flights_[index];
    flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(index));
    Tier& tier = tiers_[flight.tier];
    // One that fails is begun again.
    const bool well = !random_.Chance(0.1);
    meter_.End(flight.flush, well, clock_.NowNs());
    if (!well) return tier.queued.emplace_front(++sequence_, flight.slot), void();
    --tier.flushing;
    ASSERT_TRUE(tier.slots[flight.slot]);
    tier.slots[flight.slot] = false;
  }

  Random random_;
  testing::ManualClock clock_{1'000'000'000};
  std::unique_ptr<PlacementPolicy> policy_;
  AssignmentQueue queue_;
  FlushMeter meter_;
  std::deque<Tier> tiers_;
  std::vector<uint32_t> left_;  // chunks by writer, not asked for
  std::vector<Write> writes_;
  std::vector<Flight> flights_;
  std::set<uint64_t> asks_;
  uint64_t asked_ = 0;
  uint64_t served_ = 0;
  uint64_t keeps_fifo_to_;
  uint64_t sequence_ = 0;
  int64_t ask_again_ns_ = 0;
  int steps_ = 0;
};

TEST(AssignmentProperties, HoldOverThousandsOfRandomDevices) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    for (auto policy : PlacementPolicyNames()) {
      SCOPED_TRACE(::testing::Message() << policy << ", seed " << seed);
      Chaos(seed, policy).Run();
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace kedge
