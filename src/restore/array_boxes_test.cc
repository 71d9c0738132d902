// Boxes of global arrays, against arrays that are filled element by element.
#include "restore/array_boxes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace kedge {
namespace {

// Calls `visit` with the place of each element of the box in the array, in the order in which they lie in the box.
template <typename Visit>
void ForEachElement(const ArrayBox& box, Visit visit) {
  std::vector<int64_t> at = box.offset;
  for (uint64_t i = 0; i < box.Elements(); ++i) {
    visit(at);
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < box.offset[d] + box.shape[d]) break;
      at[d] = box.offset[d];
    }
  }
}

bool Has(const ArrayBox& box, const std::vector<int64_t>& at) {
  for (size_t d = 0; d < at.size(); ++d) {
    if (at[d] < box.offset[d] || at[d] >= box.offset[d] + box.shape[d]) return false;
  }
  return true;
}

class ArrayBoxes : public testing::TestWithParam<size_t> {
 protected:
  ArrayBox RandomBox() {
    ArrayBox box;
    for (size_t d = 0; d < GetParam(); ++d) {
      box.offset.push_back(std::uniform_int_distribution<int64_t>(0, 5)(random_));
      box.shape.push_back(std::uniform_int_distribution<int64_t>(0, 5)(random_));
    }
    return box;
  }
  std::mt19937 random_{7};
};

TEST_P(ArrayBoxes, WhatIsTakenAndWhatIsLeftAreTheBox) {
  for (int round = 0; round < 300; ++round) {
    const ArrayBox box = RandomBox(), taken = RandomBox();
    const auto common = Intersection(box, taken);
    const std::vector<ArrayBox> rest = Without(box, taken);
    ForEachElement(box, [&](const std::vector<int64_t>& at) {
      const auto holders = std::ranges::count_if(rest, [&](const ArrayBox& one) { return Has(one, at); });
      ASSERT_EQ(holders, Has(taken, at) ? 0 : 1);
      ASSERT_EQ(common && Has(*common, at), Has(taken, at));
    });
    uint64_t elements = common ? common->Elements() : 0;
    for (const ArrayBox& one : rest) elements += one.Elements();
    ASSERT_EQ(elements, box.Elements());
  }
}

TEST_P(ArrayBoxes, RunsCopyWhatIsCommonInTheOrderInWhichItLies) {
  for (int round = 0; round < 300; ++round) {
    const ArrayBox from = RandomBox(), to = RandomBox();
    const auto common = Intersection(from, to);
    if (!common) continue;
    std::vector<std::vector<int64_t>> source, target;
    ForEachElement(from, [&](const std::vector<int64_t>& at) { source.push_back(at); });
    ForEachElement(to, [&](const std::vector<int64_t>& at) { target.push_back(at); });
    uint64_t copied = 0, end = 0;
    std::vector<ByteRun> runs;
    CommonRuns walk(*common, from, to, 1);
    while (const auto run = walk.Next()) {
      ASSERT_GE(run->from, end) << "in order, and none twice";
      end = run->from + run->bytes;
      for (uint64_t i = 0; i < run->bytes; ++i) ASSERT_EQ(source.at(run->from + i), target.at(run->to + i));
      copied += run->bytes;
      runs.push_back(*run);
    }
    ASSERT_EQ(copied, common->Elements());
    if (common == from && common == to) {
      ASSERT_EQ(runs.size(), 1u);
    }
    for (uint64_t at = 0; at <= source.size(); ++at) {
      walk.SkipTo(at);
      const auto expected = std::ranges::find_if(runs, [&](const ByteRun& run) { return run.from + run.bytes > at; });
      for (auto run = expected; run != runs.end(); ++run) ASSERT_EQ(walk.Next()->from, run->from) << "behind " << at;
      ASSERT_FALSE(walk.Next());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dimensions, ArrayBoxes, testing::Values(1, 2, 3, 4));

TEST(Boxes, ColumnMajorOnesAreTurnedRound) {
  Region region;
  EXPECT_EQ(PartOf(region), std::nullopt);
  region.shape = {3, 4};
  region.global_shape = {30, 40};
  region.global_offset = {6, 8};
  EXPECT_EQ(PartOf(region), (ArrayBox{{6, 8}, {3, 4}}));
  region.halo = {1, 0};
  EXPECT_EQ(PartOf(region), (ArrayBox{{6, 8}, {1, 4}}));
  EXPECT_EQ(MemoryOf(region), (ArrayBox{{5, 8}, {3, 4}}));
  region.column_major = true;
  EXPECT_EQ(PartOf(region), (ArrayBox{{8, 6}, {4, 1}}));
  EXPECT_EQ(MemoryOf(region), (ArrayBox{{8, 5}, {4, 3}}));
}

TEST(Boxes, SlabsAreOneRun) {
  const ArrayBox from{{0, 0, 0}, {10, 6, 7}}, to{{8, 0, 0}, {10, 6, 7}};
  CommonRuns walk(*Intersection(from, to), from, to, 8);
  const auto run = walk.Next();
  ASSERT_TRUE(run);
  EXPECT_EQ(run->from, 8u * 8 * 42);
  EXPECT_EQ(run->to, 0u);
  EXPECT_EQ(run->bytes, 8u * 2 * 42);
  EXPECT_FALSE(walk.Next());
}

}  // namespace
}  // namespace kedge
