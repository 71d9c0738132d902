// Free and used addresses of a heap.
#include "client/heap/units.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace kedge::client {
namespace {

TEST(UnitsTest, TheHighestThatFitAreTakenAndFreedOnesAreOneAgain) {
  Units units(100);
  EXPECT_EQ(units.Take(10, 1), 90u);
  EXPECT_EQ(units.Take(32, 32), 32u) << "at a multiple of the alignment";
  EXPECT_EQ(units.Take(26, 1), 64u) << "what the alignment has left";
  EXPECT_EQ(units.Take(33, 1), std::nullopt);
  units.Free(32, 32);
  units.Free(90, 10);
  units.Free(64, 26);
  EXPECT_EQ(units.Take(100, 1), 0u);
  EXPECT_EQ(units.Take(1, 1), std::nullopt);
}

TEST(UnitsTest, ExactOnesAreTakenWhereAllAreFree) {
  Units units(100);
  EXPECT_TRUE(units.TakeAt(20, 10));
  EXPECT_FALSE(units.TakeAt(29, 1));
  EXPECT_FALSE(units.TakeAt(10, 11));
  EXPECT_FALSE(units.TakeAt(90, 11)) << "beyond the end";
  EXPECT_TRUE(units.TakeAt(30, 5));
  EXPECT_TRUE(units.TakeAt(90, 10));
  EXPECT_FALSE(units.TakeAt(100, 1));
  units.Extend(120);
  EXPECT_TRUE(units.TakeAt(100, 20));
}

TEST(UnitsTest, NothingIsGivenTwiceOrLost) {
  Random random(7);
  Units units(1000);
  std::map<uint64_t, uint64_t> taken;
  uint64_t used = 0;
  for (int step = 0; step < 5000; ++step) {
    if (random.Below(2) == 0 && !taken.empty()) {
      auto one = taken.lower_bound(random.Below(1000));
      if (one == taken.end()) one = taken.begin();
      units.Free(one->first, one->second);
      used -= one->second;
      taken.erase(one);
      continue;
    }
    const uint64_t count = 1 + random.Below(40), alignment = uint64_t{1} << random.Below(5);
    const auto first = units.Take(count, alignment);
    if (!first) continue;
    ASSERT_EQ(*first % alignment, 0u);
    ASSERT_LE(*first + count, 1000u);
    const auto behind = taken.lower_bound(*first);
    ASSERT_TRUE(behind == taken.end() || behind->first >= *first + count);
    ASSERT_TRUE(behind == taken.begin() || std::prev(behind)->first + std::prev(behind)->second <= *first);
    taken[*first] = count;
    used += count;
  }
  for (const auto& [first, count] : taken) units.Free(first, count);
  EXPECT_GT(used, 0u);
  EXPECT_EQ(units.Take(1000, 1), 0u);
}

}  // namespace
}  // namespace kedge::client
