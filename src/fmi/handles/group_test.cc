#include "fmi/handles/group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "fmi/testing/seed.h"

namespace kedge::fmi {
namespace {

TEST(Group, CallsRanksByTheirPlaces) {
  const Group group({7, 2, 5});
  EXPECT_EQ(group.size(), 3u);
  EXPECT_EQ(group[0], 7u);
  EXPECT_EQ(group.Find(5), 2u);
  EXPECT_FALSE(group.Find(3));
  EXPECT_FALSE(group.Find(8));
  EXPECT_EQ(Group().size(), 0u);
  EXPECT_FALSE(Group().Find(0));
  EXPECT_EQ(Group::OfAll(3), Group({0, 1, 2}));
}

TEST(Group, IncludesAndExcludes) {
  const Group group({7, 2, 5});
  EXPECT_EQ(*group.Include({2, 0}), Group({5, 7}));
  EXPECT_EQ(*group.Exclude({1}), Group({7, 5}));
  EXPECT_EQ(*group.Exclude({0, 1, 2}), Group());
  EXPECT_EQ(group.Include({3}).status().message(), "rank 3 is asked for, and the group has 3 ranks");
  EXPECT_EQ(group.Include({-1}).status().message(), "rank -1 is asked for, and the group has 3 ranks");
  EXPECT_EQ(group.Exclude({1, 1}).status().message(), "rank 1 comes twice");
}

TEST(Group, KnowsTheSameRanksInAnotherOrder) {
  EXPECT_TRUE(Group({1, 2}).HasSameRanks(Group({2, 1})));
  EXPECT_FALSE(Group({1, 2}).HasSameRanks(Group({1, 3})));
  EXPECT_FALSE(Group({1, 2}).HasSameRanks(Group({1, 2, 3})));
}

TEST(Group, IsCheckedWhereItComesFromElsewhere) {
  EXPECT_TRUE(Group::Checked({3, 1}, 4).ok());
  EXPECT_FALSE(Group::Checked({3, 4}, 4).ok());
  EXPECT_FALSE(Group::Checked({1, 1}, 4).ok());
}

TEST(Split, OrdersByKeysAndThenByNumbers) {
  const std::vector<Wish> wishes = {{0, 5}, {1, 0}, {0, -2}, {0, 5}, {Wish::kNowhere, 0}};
  EXPECT_EQ(Split(wishes, 0), (std::vector<uint32_t>{2, 0, 3}));
  EXPECT_EQ(Split(wishes, 1), (std::vector<uint32_t>{1}));
  EXPECT_EQ(Split(wishes, 4), std::vector<uint32_t>());
}

// Each is in one part, the parts of two are the same or have nobody in common, and keys rise.
TEST(Split, CutsAnyWishesIntoParts) {
  const uint32_t seed = testing::Seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<Wish> wishes(1 + random() % 20);
    for (Wish& wish : wishes) wish = {static_cast<int>(random() % 4) - 1, static_cast<int>(random() % 5) - 2};
    std::vector<std::vector<uint32_t>> parts;
    for (uint32_t own = 0; own < wishes.size(); ++own) {
      parts.push_back(Split(wishes, own));
      const auto& part = parts.back();
      ASSERT_EQ(std::count(part.begin(), part.end(), own), wishes[own].colour == Wish::kNowhere ? 0 : 1);
      for (size_t i = 0; i < part.size(); ++i) {
        ASSERT_EQ(wishes[part[i]].colour, wishes[own].colour);
        if (i == 0) continue;
        const Wish &left = wishes[part[i - 1]], &right = wishes[part[i]];
        ASSERT_TRUE(left.key < right.key || (left.key == right.key && part[i - 1] < part[i]));
      }
      for (uint32_t other = 0; other < own; ++other) {
        ASSERT_EQ(parts[other] == part, wishes[other].colour == wishes[own].colour);
      }
    }
  }
}

}  // namespace
}  // namespace kedge::fmi
