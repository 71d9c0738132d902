// Who leads: the least bytes move, or nearly so, and idle and near nodes do it.
#include "aggregation/election.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "aggregation/testing/random_nodes.h"
#include "aggregation/testing/whole_plan.h"

namespace kedge::aggregation {
namespace {

using testing::MakeRandomNodes;
using testing::RandomNodes;

Roles ElectOf(const RandomNodes& made, const ElectionOptions& options) {
  return Elect(made.line, testing::Scan(made.line, options.counts.leaders, made.sizes).root, options);
}

// Stripes of each leader when `stripes` are dealt in turn, and what they hold.
std::vector<uint64_t> Capacities(uint64_t bytes, uint64_t stripe_bytes, size_t leaders) {
  std::vector<uint64_t> capacities(leaders);
  for (uint64_t at = 0, i = 0; at < bytes; at += stripe_bytes, ++i) {
    capacities[i % leaders] += std::min(stripe_bytes, bytes - at);
  }
  return capacities;
}

// Tries every set of leaders and every way to give them their capacities.
uint64_t LeastMoved(const std::vector<NodeSize>& sizes, std::vector<uint64_t> capacities) {
  uint64_t most_kept = 0, total = 0;
  for (const NodeSize& size : sizes) total += size.bytes;
  std::sort(capacities.begin(), capacities.end());
  for (uint32_t set = 0; set < (1u << sizes.size()); ++set) {
    if (static_cast<size_t>(std::popcount(set)) != capacities.size()) continue;
    do {
      uint64_t kept = 0;
      size_t next = 0;
      for (size_t i = 0; i < sizes.size(); ++i) {
        if ((set >> i & 1) != 0) kept += std::min(sizes[i].bytes, capacities[next++]);
      }
      most_kept = std::max(most_kept, kept);
    } while (std::next_permutation(capacities.begin(), capacities.end()));
  }
  return total - most_kept;
}

TEST(Election, MovesAtMostTheSlackMoreThanTheOptimum) {
  uint32_t not_least = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    const RandomNodes made = MakeRandomNodes(seed, 8, 4000);
    Random random(seed);
    ElectionOptions options;
    options.counts = testing::RandomCounts(random, std::min(made.line.size(), 5u));
    options.stripe_bytes = 1 + random.Below(500);
    const Roles roles = ElectOf(made, options);
    const uint64_t least = LeastMoved(made.sizes, Capacities(roles.bytes, roles.stripe_bytes, roles.leaders.size()));
    EXPECT_GE(roles.moved_bytes(), least) << "seed " << seed;
    EXPECT_LE(static_cast<double>(roles.moved_bytes()), 1.1 * static_cast<double>(least)) << "seed " << seed;
    not_least += roles.moved_bytes() > least ? 1 : 0;
    options.slack_percent = 0;
    EXPECT_EQ(ElectOf(made, options).moved_bytes(), least) << "seed " << seed;
  }
  EXPECT_GT(not_least, 20u) << "the slack is used";
}

TEST(Election, LeadersDifferByAStripe) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const RandomNodes made = MakeRandomNodes(seed, 300, 1 << 20);
    Random random(seed);
    ElectionOptions options;
    options.counts = testing::RandomCounts(random, made.line.size());
    options.stripe_bytes = 1 + random.Below(1 << 16);
    const Roles roles = ElectOf(made, options);
    if (roles.bytes == 0) {
      EXPECT_TRUE(roles.leaders.empty());
      continue;
    }
    EXPECT_EQ(roles.leaders.size(), Capacities(roles.bytes, roles.stripe_bytes, roles.leaders.size()).size());
    const auto capacities = Capacities(roles.bytes, roles.stripe_bytes, roles.leaders.size());
    for (size_t i = 0; i < roles.leaders.size(); ++i) EXPECT_EQ(roles.leaders[i].capacity, capacities[i]);
    EXPECT_LE(capacities.front() - capacities.back(), 2 * roles.stripe_bytes);
    EXPECT_LE(roles.leaders.size(), options.counts.leaders);
    EXPECT_LE(roles.objects, options.counts.objects);
    EXPECT_TRUE(roles.objects % roles.leaders.size() == 0 || roles.leaders.size() % roles.objects == 0);
  }
}

RandomNodes Equal(uint32_t nodes, uint32_t places) {
  return {*MakeLine(testing::Members(nodes, places)), std::vector<NodeSize>(nodes, {1 << 20, 0})};
}

TEST(Election, IdleNodesLead) {
  RandomNodes made = Equal(64, 1);
  Random random(3);
  for (NodeSize& size : made.sizes) size.load = static_cast<uint8_t>(random.Below(256));
  std::vector<uint8_t> loads;
  for (const NodeSize& size : made.sizes) loads.push_back(size.load);
  std::sort(loads.begin(), loads.end());
  std::vector<uint8_t> of_leaders;
  for (const Leader& leader : ElectOf(made, {{8, 8}, 4096}).leaders) of_leaders.push_back(made.sizes[leader.node].load);
  std::sort(of_leaders.begin(), of_leaders.end());
  EXPECT_EQ(of_leaders, std::vector<uint8_t>(loads.begin(), loads.begin() + 8));
}

// Sizes that differ by a few percent do not outweigh a busy node.
TEST(Election, ALittleLargerIsNoReasonToLoadABusyNode) {
  RandomNodes made = Equal(40, 1);
  for (uint32_t i = 0; i < 10; ++i) made.sizes[i] = {(1 << 20) * 103 / 100, 200};
  for (const Leader& leader : ElectOf(made, {{10, 10}, 4096}).leaders) EXPECT_GE(leader.node, 10u);
  for (const Leader& leader : ElectOf(made, {{10, 10}, 4096, 0}).leaders) EXPECT_LT(leader.node, 10u);
}

// But a node that has nearly all the bytes leads, however busy it is.
TEST(Election, TheLargestLeadsHoweverBusy) {
  RandomNodes made = Equal(10, 1);
  made.sizes[7] = {100 << 20, 255};
  const Roles roles = ElectOf(made, {{1, 1}, 4096});
  EXPECT_EQ(roles.leaders[0].node, 7u);
  EXPECT_EQ(roles.moved_bytes(), 9u << 20);
}

TEST(Election, LeadersAreNearWhatTheyGather) {
  const RandomNodes made = Equal(64, 8);
  const Roles roles = ElectOf(made, {{8, 8}, 4096});
  std::vector<uint32_t> of_district(8);
  for (const Leader& leader : roles.leaders) ++of_district[made.line.DistrictOf(leader.node)];
  EXPECT_THAT(of_district, ::testing::Each(1u));
  EXPECT_EQ(roles.far_bytes, 0u);
}

// The bytes that leave a district are the fewest that the leaders allow: what it has more than its leaders take.
TEST(Election, NothingLeavesADistrictThatHasRoom) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomNodes made = MakeRandomNodes(seed, 100, 1 << 20);
    Random random(seed);
    const Roles roles = ElectOf(made, {testing::RandomCounts(random, made.line.size()), 1 + random.Below(1 << 16)});
    std::vector<uint64_t> bytes(made.line.district_count()), taken(made.line.district_count());
    for (uint32_t i = 0; i < made.line.size(); ++i) bytes[made.line.DistrictOf(i)] += made.sizes[i].bytes;
    for (const Leader& leader : roles.leaders) taken[made.line.DistrictOf(leader.node)] += leader.capacity;
    uint64_t least = 0;
    for (size_t i = 0; i < bytes.size(); ++i) least += bytes[i] - std::min(bytes[i], taken[i]);
    EXPECT_EQ(roles.far_bytes, least);
  }
}

TEST(Election, NothingToWriteAndOneByte) {
  RandomNodes made = Equal(5, 2);
  for (NodeSize& size : made.sizes) size.bytes = 0;
  EXPECT_TRUE(ElectOf(made, {{3, 3}, 4096}).leaders.empty());
  made.sizes[4].bytes = 1;
  const Roles roles = ElectOf(made, {{3, 3}, 4096});
  ASSERT_EQ(roles.leaders.size(), 1u);
  EXPECT_EQ(roles.leaders[0].node, 4u);
  EXPECT_EQ(roles.objects, 1u);
}

}  // namespace
}  // namespace kedge::aggregation
