// Levels by count and by time; what stays on the node, with the rule that nothing is lost checked over random histories.
#include "schedule/schedule.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace kedge {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kStart = 1'700'000'000 * kSecond;

TEST(ScheduleVersion, EveryNth) {
  LevelState state;
  LevelRule rule{3, {}};
  std::string levels;
  for (int i = 0; i < 8; ++i) levels += ScheduleVersion(rule, kStart + i, &state) == Level::kStore ? 'S' : 'l';
  EXPECT_EQ(levels, "SllSllSl");
}

TEST(ScheduleVersion, NoneWhenOff) {
  LevelState state;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ScheduleVersion({0, {}}, kStart, &state), Level::kLocal);
}

TEST(ScheduleVersion, NoMoreOftenThanTheInterval) {
  LevelState state;
  LevelRule rule{1, std::chrono::seconds(10)};
  EXPECT_EQ(ScheduleVersion(rule, kStart, &state), Level::kStore);
  EXPECT_EQ(ScheduleVersion(rule, kStart + 9 * kSecond, &state), Level::kLocal);
  EXPECT_EQ(ScheduleVersion(rule, kStart + 10 * kSecond, &state), Level::kStore);
  EXPECT_EQ(ScheduleVersion(rule, kStart - 3600 * kSecond, &state), Level::kStore) << "the clock was set back";
}

LocalGeneration Whole(int64_t version, bool owed, bool in_store) {
  return {Generation{StoreId{1, 1}, "j", "n", version, 1, 1}, true, false, owed, in_store};
}

TEST(KeepLocal, NewestStaysOlderGoes) {
  std::vector<LocalGeneration> versions = {Whole(3, false, true), Whole(2, false, true), Whole(1, true, false)};
  EXPECT_EQ(KeepLocal(versions, 1), (std::vector{Keeping::kEvictable, Keeping::kDrop, Keeping::kPinned}));
  EXPECT_EQ(KeepLocal(versions, 2), (std::vector{Keeping::kEvictable, Keeping::kEvictable, Keeping::kPinned}));
}

TEST(KeepLocal, TheOnlyCopyIsPinned) {
  std::vector<LocalGeneration> versions = {Whole(2, false, false), Whole(1, false, false)};
  EXPECT_EQ(KeepLocal(versions, 0), (std::vector{Keeping::kPinned, Keeping::kDrop}));
}

TEST(KeepLocal, WhatIsNotWholeDisplacesNothing) {
  LocalGeneration begun = Whole(3, true, false);
  begun.whole = false;
  EXPECT_EQ(KeepLocal(std::vector{begun, Whole(2, false, false)}, 1), (std::vector{Keeping::kPinned, Keeping::kPinned}));
  begun.hopeless = true;
  EXPECT_EQ(KeepLocal(std::vector{begun, Whole(2, false, false)}, 1), (std::vector{Keeping::kPinned, Keeping::kPinned}))
      << "its flush goes on: other nodes may have the rest";
  begun.owed = false;
  EXPECT_EQ(KeepLocal(std::vector{begun, Whole(2, false, false)}, 1), (std::vector{Keeping::kDrop, Keeping::kPinned}));
}

TEST(KeepLocal, WhatIsNotWholeGoesWhenOvertaken) {
  LocalGeneration part = Whole(2, false, false);
  part.whole = false;
  EXPECT_EQ(KeepLocal(std::vector{Whole(3, true, false), part}, 1), (std::vector{Keeping::kPinned, Keeping::kDrop}));
  EXPECT_EQ(KeepLocal(std::vector{part}, 1), (std::vector{Keeping::kPinned}));
  part.in_store = true;
  EXPECT_EQ(KeepLocal(std::vector{part}, 1), (std::vector{Keeping::kDrop}));
}

TEST(KeepLocal, TheOnlyCopyOfTheNewestWholeVersionStays) {
  Random random(3);
  for (int round = 0; round < 20000; ++round) {
    std::vector<LocalGeneration> versions;
    for (uint64_t i = random.Below(6); i > 0; --i) {
      LocalGeneration generation = Whole(static_cast<int64_t>(i), random.Chance(0.3), random.Chance(0.5));
      generation.whole = random.Chance(0.7);
      generation.hopeless = !generation.whole && random.Chance(0.5);
      if (generation.in_store) generation.owed = false;
      versions.push_back(generation);
    }
    auto keeping = KeepLocal(versions, static_cast<uint32_t>(random.Below(3)));
    ASSERT_EQ(keeping.size(), versions.size());
    bool newer_whole = false;
    for (size_t i = 0; i < versions.size(); ++i) {
      const bool only_copy = versions[i].whole && !newer_whole && !versions[i].in_store;
      const bool owed = versions[i].whole && versions[i].owed;
      EXPECT_TRUE(!(only_copy || owed) || keeping[i] == Keeping::kPinned) << "round " << round << ", generation " << i;
      EXPECT_TRUE(!versions[i].whole || keeping[i] != Keeping::kDrop || newer_whole) << "round " << round;
      newer_whole = newer_whole || versions[i].whole;
    }
  }
}

}  // namespace
}  // namespace kedge
