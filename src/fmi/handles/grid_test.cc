#include "fmi/handles/grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "fmi/testing/seed.h"

namespace kedge::fmi {
namespace {

std::vector<int> Filled(int ranks, std::vector<int> sizes) {
  const Status status = FillSizes(ranks, &sizes);
  EXPECT_TRUE(status.ok()) << status.message();
  return sizes;
}

TEST(Grid, CountsTheLastCoordinateFastest) {
  const Grid grid = *Grid::Checked({2, 3}, {0, 1}, 6);
  EXPECT_EQ(grid.places(), 6u);
  EXPECT_EQ(grid.CoordinatesOf(4), (std::vector<int>{1, 1}));
  EXPECT_EQ(grid.RankOf({1, 1}), 4u);
}

TEST(Grid, EndsAtEdgesAndWrapsWhereItIsPeriodic) {
  const Grid grid = *Grid::Checked({2, 3}, {0, 1}, 6);
  EXPECT_FALSE(grid.Shifted(0, 0, -1));
  EXPECT_EQ(grid.Shifted(0, 0, 1), 3u);
  EXPECT_FALSE(grid.Shifted(3, 0, 1));
  EXPECT_EQ(grid.Shifted(0, 1, -1), 2u);
  EXPECT_EQ(grid.Shifted(2, 1, 1), 0u);
  EXPECT_EQ(grid.Shifted(2, 1, int64_t{1} << 40), grid.Shifted(2, 1, (int64_t{1} << 40) % 3));
  EXPECT_FALSE(grid.RankOf({2, 0}));
  EXPECT_EQ(grid.RankOf({1, -1}), 5u);
  EXPECT_EQ(grid.RankOf({1, INT32_MIN}), grid.RankOf({1, static_cast<int>(INT32_MIN % 3) + 3}));
}

TEST(Grid, HasNoMorePlacesThanRanks) {
  EXPECT_EQ(Grid::Checked({2, 3}, {0, 0}, 5).status().message(),
            "the grid 2 x 3 has more places than the communicator has ranks, 5");
  EXPECT_EQ(Grid::Checked({2, 0}, {0, 0}, 5).status().message(), "the grid 2 x 0 has an empty dimension");
  EXPECT_FALSE(Grid::Checked(std::vector<int>(16, 1 << 30), std::vector<char>(16), 256).ok());
  EXPECT_EQ(Grid::Checked({}, {}, 3)->places(), 1u);
}

// Every rank has coordinates of its own; a step there and back leads home; the kept dimensions make grids that share no rank.
TEST(Grid, HoldsForAnySizes) {
  const uint32_t seed = testing::Seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const size_t dimensions = random() % 5;
    std::vector<int> sizes;
    std::vector<char> wraps, keeps;
    for (size_t i = 0; i < dimensions; ++i) {
      sizes.push_back(1 + static_cast<int>(random() % 4));
      wraps.push_back(static_cast<char>(random() % 2));
      keeps.push_back(static_cast<char>(random() % 2));
    }
    const Grid grid = *Grid::Checked(sizes, wraps, 1024);
    std::vector<Wish> wishes;
    for (uint32_t rank = 0; rank < grid.places(); ++rank) {
      ASSERT_EQ(grid.RankOf(grid.CoordinatesOf(rank)), rank);
      wishes.push_back(grid.WishForKept(rank, keeps));
      for (uint32_t dimension = 0; dimension < dimensions; ++dimension) {
        const int by = static_cast<int>(random() % 9) - 4;
        const auto there = grid.Shifted(rank, dimension, by);
        if (there) {
          ASSERT_EQ(grid.Shifted(*there, dimension, -by), rank);
        } else {
          ASSERT_EQ(wraps[dimension], 0);
        }
      }
    }
    const Grid kept = grid.Kept(keeps);
    for (uint32_t rank = 0; rank < grid.places(); ++rank) {
      const auto members = Split(wishes, rank);
      ASSERT_EQ(members.size(), kept.places());
      // A rank's place there is what its coordinates say.
      const auto own = static_cast<uint32_t>(std::find(members.begin(), members.end(), rank) - members.begin());
      std::vector<int> coordinates;
      for (size_t i = 0; i < dimensions; ++i) {
        if (keeps[i] != 0) coordinates.push_back(grid.CoordinatesOf(rank)[i]);
      }
      ASSERT_EQ(kept.CoordinatesOf(own), coordinates);
    }
  }
}

TEST(FillSizes, MakesThemAsNearToEachOtherAsCanBe) {
  EXPECT_EQ(Filled(6, {0, 0}), (std::vector<int>{3, 2}));
  EXPECT_EQ(Filled(16, {0, 0}), (std::vector<int>{4, 4}));
  EXPECT_EQ(Filled(12, {0, 0, 0}), (std::vector<int>{3, 2, 2}));
  EXPECT_EQ(Filled(7, {0, 0, 0}), (std::vector<int>{7, 1, 1}));
  EXPECT_EQ(Filled(24, {0, 3, 0}), (std::vector<int>{4, 3, 2}));
  EXPECT_EQ(Filled(6, {2, 3}), (std::vector<int>{2, 3}));
  EXPECT_EQ(Filled(2147483647, {0, 0}), (std::vector<int>{2147483647, 1}));
  EXPECT_EQ(Filled(1 << 30, std::vector<int>(16, 0)).front(), 4);
}

TEST(FillSizes, SaysWhereThereAreNone) {
  std::vector<int> sizes = {4, 0};
  EXPECT_EQ(FillSizes(6, &sizes).message(), "6 ranks do not divide into 4 x 0");
  sizes = {2, 2};
  EXPECT_EQ(FillSizes(6, &sizes).message(), "6 ranks do not divide into 2 x 2");
  sizes = {2, 2};
  EXPECT_EQ(FillSizes(8, &sizes).message(), "8 ranks are not 2 x 2");
  sizes = {-1, 0};
  EXPECT_EQ(FillSizes(8, &sizes).message(), "a dimension is -1");
}

// The product is right, sizes fall, and no other way is nearer to a cube.
TEST(FillSizes, HoldsForAllNumbersOfRanks) {
  for (int ranks = 1; ranks <= 256; ++ranks) {
    const std::vector<int> two = Filled(ranks, {0, 0});
    ASSERT_EQ(two[0] * two[1], ranks);
    ASSERT_GE(two[0], two[1]);
    const std::vector<int> three = Filled(ranks, {0, 0, 0});
    ASSERT_EQ(three[0] * three[1] * three[2], ranks);
    ASSERT_TRUE(three[0] >= three[1] && three[1] >= three[2]);
    for (int a = 1; a <= ranks; ++a) {
      if (ranks % a != 0) continue;
      ASSERT_LE(two[0], std::max(a, ranks / a));
      for (int b = 1; b <= ranks / a; ++b) {
        if (ranks / a % b == 0) {
          ASSERT_LE(three[0], std::max({a, b, ranks / a / b}));
        }
      }
    }
  }
}

}  // namespace
}  // namespace kedge::fmi
