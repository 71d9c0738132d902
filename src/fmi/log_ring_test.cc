#include "fmi/log_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <set>
#include <vector>

#include "fmi/testing/seed.h"

namespace kedge::fmi {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kRanksMax = 1024;

uint32_t Logarithm(uint32_t ranks) {
  return static_cast<uint32_t>(std::bit_width(ranks - 1));
}

// The thesis's figure 5.8.
TEST(LogRing, HasTheNeighboursOfTheThesis) {
  EXPECT_THAT(RingNeighbours(0, 16, 2), ElementsAre(1, 2, 4, 8, 12, 14, 15));
  EXPECT_EQ(NotificationHops(16, 2, {0})[6], 2u);
}

TEST(LogRing, HoldsForFewRanks) {
  EXPECT_THAT(RingNeighbours(0, 1, 2), IsEmpty());
  EXPECT_THAT(RingNeighbours(1, 2, 2), ElementsAre(0));
  EXPECT_THAT(RingNeighbours(2, 3, 2), ElementsAre(0, 1));
  EXPECT_THAT(NotificationHops(1, 2, {0}), ElementsAre(0));
}

TEST(LogRing, IsConnectedBothWays) {
  for (const uint32_t base : {2u, 3u, 4u, 16u}) {
    for (const uint32_t ranks : {2u, 7u, 64u, 100u}) {
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        for (const uint32_t neighbour : RingNeighbours(rank, ranks, base)) {
          const auto back = RingNeighbours(neighbour, ranks, base);
          EXPECT_TRUE(std::binary_search(back.begin(), back.end(), rank)) << rank << " of " << ranks << ", base " << base;
        }
      }
    }
  }
}

TEST(LogRing, TellsAllOfOneFailureInHalfTheLogarithm) {
  for (uint32_t ranks = 2; ranks <= kRanksMax; ++ranks) {
    const auto hops = NotificationHops(ranks, 2, {ranks / 3});
    EXPECT_LE(*std::max_element(hops.begin(), hops.end()), (Logarithm(ranks) + 1) / 2) << ranks << " ranks";
  }
}

// Ranks that close their connections one by one, in any order, while more of them die: nobody is left out, and nobody is told
// later than if the first death had been the only one.
TEST(LogRing, TellsAllWhileRandomRanksDie) {
  const uint32_t seed = testing::Seed();
  SCOPED_TRACE(::testing::Message() << "KEDGE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const uint32_t ranks = 2 + random() % (kRanksMax - 1);
    const uint32_t base = 2 + random() % 7;
    const uint32_t first = random() % ranks;
    const auto alone = NotificationHops(ranks, base, {first});
    std::vector<bool> closed(ranks, false);
    std::vector<uint32_t> closing = {first};
    for (uint32_t hop = 0; !closing.empty(); ++hop) {
      if (random() % 2 == 0) closing.push_back(random() % ranks);
      std::shuffle(closing.begin(), closing.end(), random);
      std::set<uint32_t> told;
      for (const uint32_t rank : closing) {
        if (closed[rank]) continue;
        closed[rank] = true;
        EXPECT_LE(hop, alone[rank]) << rank << " of " << ranks << ", base " << base;
        for (const uint32_t neighbour : RingNeighbours(rank, ranks, base)) {
          if (!closed[neighbour]) told.insert(neighbour);
        }
      }
      closing.assign(told.begin(), told.end());
    }
    EXPECT_EQ(std::count(closed.begin(), closed.end(), false), 0) << ranks << " ranks, base " << base;
  }
}

TEST(LogRing, TakesFewerConnectionsAndMoreHopsWithALargerBase) {
  EXPECT_LT(RingNeighbours(0, kRanksMax, 4).size(), RingNeighbours(0, kRanksMax, 2).size());
  const auto hops = NotificationHops(kRanksMax, 4, {0});
  EXPECT_GT(*std::max_element(hops.begin(), hops.end()), Logarithm(kRanksMax) / 2);
}

}  // namespace
}  // namespace kedge::fmi
