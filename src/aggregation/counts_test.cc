#include "aggregation/counts.h"

#include <gtest/gtest.h>

namespace kedge::aggregation {
namespace {

constexpr FileSystem kStriped{
    .targets = 56, .target_bytes_per_second = 3e9, .object_bytes_per_second = 0.5e9, .node_bytes_per_second = 1.5e9};

TEST(Counts, KeepAllTargetsBusyAndEqual) {
  EXPECT_EQ(*ChooseCounts(1024, kStriped, {}), (Counts{336, 336}));  // 6 objects on each target
  EXPECT_EQ(*ChooseCounts(64, kStriped, {}), (Counts{64, 192}));     // a node writes 3 objects at once
  EXPECT_EQ(*ChooseCounts(1, kStriped, {}), (Counts{1, 3}));
  EXPECT_EQ(*ChooseCounts(200, kStriped, {}), (Counts{200, 400}));
}

TEST(Counts, WithoutTargetsEveryNodeWritesOneObject) {
  EXPECT_EQ(*ChooseCounts(10, {}, {}), (Counts{10, 10}));
  EXPECT_EQ(*ChooseCounts(10, {.targets = 4}, {}), (Counts{4, 4}));
}

TEST(Counts, WhatTheUserSays) {
  EXPECT_EQ(*ChooseCounts(64, kStriped, {.leaders = 8}), (Counts{8, 24}));
  EXPECT_EQ(*ChooseCounts(64, kStriped, {.objects = 1}), (Counts{64, 1}));
  EXPECT_EQ(*ChooseCounts(64, kStriped, {.objects = 10}), (Counts{60, 10}));
  EXPECT_EQ(*ChooseCounts(6, kStriped, {.objects = 9}), (Counts{3, 9}));
  EXPECT_EQ(*ChooseCounts(64, kStriped, {.leaders = 4, .objects = 2}), (Counts{4, 2}));
  EXPECT_EQ(ChooseCounts(64, kStriped, {.leaders = 4, .objects = 3}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ChooseCounts(3, kStriped, {.leaders = 4}).status().code(), Code::kInvalidArgument);
}

TEST(Counts, OneAlwaysDividesTheOther) {
  for (uint32_t nodes = 1; nodes <= 300; ++nodes) {
    for (uint32_t asked = 0; asked <= 300; asked += 7) {
      const Counts by_objects = *ChooseCounts(nodes, kStriped, {.objects = asked});
      EXPECT_LE(by_objects.leaders, nodes);
      EXPECT_TRUE(by_objects.leaders % by_objects.objects == 0 || by_objects.objects % by_objects.leaders == 0);
      if (asked != 0) {
        EXPECT_EQ(by_objects.objects, asked);
      }
    }
  }
}

}  // namespace
}  // namespace kedge::aggregation
