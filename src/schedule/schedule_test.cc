// Levels by count and by time; what stays on the node, with the rule that nothing is lost checked over random histories.
#include "schedule/schedule.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace kedge {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kStart = 1'700'000'000 * kSecond;

TEST(ScheduleVersion, EveryNthOfAnAttempt) {
  ScheduleState state;
  const ScheduleRule rule{{2, {}}, {3, {}}};
  std::string levels;
  for (const uint32_t attempt : {1u, 2u}) {
    for (uint32_t turn = 0; turn < 7; ++turn) {
      const ScheduledLevels scheduled = ScheduleVersion(rule, attempt, turn, kStart, &state);
      levels += scheduled.node && scheduled.store ? 'B' : scheduled.store ? 'S' : scheduled.node ? 'N' : 'l';
    }
  }
  EXPECT_EQ(levels, "BlNSNlBBlNSNlB");
}

TEST(ScheduleVersion, TheLastLevelIsTheHighest) {
  EXPECT_EQ((ScheduledLevels{false, false}).Last(), Level::kLocal);
  EXPECT_EQ((ScheduledLevels{true, false}).Last(), Level::kNode);
  EXPECT_EQ((ScheduledLevels{true, true}).Last(), Level::kStore);
  EXPECT_EQ((ScheduledLevels{false, true}).Last(), Level::kStore);
}

TEST(ScheduleVersion, NoneWhenOff) {
  ScheduleState state;
  for (uint32_t turn = 0; turn < 5; ++turn) {
    EXPECT_EQ(ScheduleVersion({{0, {}}, {0, {}}}, 1, turn, kStart, &state), ScheduledLevels{});
  }
}

TEST(ScheduleVersion, OneInEachSpan) {
  ScheduleState state;
  const ScheduleRule rule{{0, {}}, {1, std::chrono::seconds(10)}};  // kStart is the beginning of a span
  const auto level = [&](uint32_t attempt, uint32_t turn, int64_t seconds) {
    return ScheduleVersion(rule, attempt, turn, kStart + seconds * kSecond, &state).Last();
  };
  EXPECT_EQ(level(1, 0, 3), Level::kStore);
  EXPECT_EQ(level(1, 1, 9), Level::kLocal);
  EXPECT_EQ(level(1, 2, 10), Level::kStore);
  EXPECT_EQ(level(1, 3, -3600), Level::kStore) << "the clock was set back";
  EXPECT_EQ(level(1, 4, -3599), Level::kLocal);
  EXPECT_EQ(level(2, 0, -3598), Level::kStore) << "the first of an attempt";
}

TEST(ScheduleVersion, ANodeThatJoinsLateDecidesAsTheOthersDo) {
  // One node has seen every version, another was without an agent now and then, a third begins at version 7.
  for (const LevelRule& of_store : {LevelRule{4, {}}, LevelRule{2, std::chrono::seconds(30)}}) {
    const ScheduleRule rule{{0, {}}, of_store};
    Random random(7);
    ScheduleState always, sometimes, late;
    for (uint32_t turn = 0; turn < 400; ++turn) {
      const int64_t now = kStart + turn * 7 * kSecond;
      const Level level = ScheduleVersion(rule, 1, turn, now, &always).Last();
      const Level first = random.Below(4) > 0 ? ScheduleVersion(rule, 1, turn, now, &sometimes).Last() : level;
      const Level second = turn >= 7 ? ScheduleVersion(rule, 1, turn, now, &late).Last() : level;
      // What a node did not see may have been the first of a span: it can only store one more, never one less.
      EXPECT_TRUE(first == level || (first > level && of_store.interval > Duration::zero())) << turn;
      EXPECT_TRUE(second == level || (second > level && of_store.interval > Duration::zero())) << turn;
    }
  }
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

TEST(KeepLocal, TheNewestOneThatOutlivesANodeStays) {
  LocalGeneration at_node = Whole(2, false, false);
  at_node.at_node = true;
  LocalGeneration older = at_node;
  older.generation.version = 1;
  EXPECT_EQ(KeepLocal(std::vector{Whole(3, false, false), at_node, older}, 1),
            (std::vector{Keeping::kPinned, Keeping::kPinned, Keeping::kDrop}));
  EXPECT_EQ(KeepLocal(std::vector{Whole(3, false, true), at_node}, 1), (std::vector{Keeping::kEvictable, Keeping::kDrop}))
      << "the store outlives the node, too";
  at_node.in_store = true;
  EXPECT_EQ(KeepLocal(std::vector{Whole(3, false, false), at_node}, 1), (std::vector{Keeping::kPinned, Keeping::kDrop}));
  EXPECT_EQ(KeepLocal(std::vector{Whole(3, false, false), at_node}, 2), (std::vector{Keeping::kPinned, Keeping::kEvictable}));
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
      generation.at_node = generation.whole && random.Chance(0.5);
      versions.push_back(generation);
    }
    auto keeping = KeepLocal(versions, static_cast<uint32_t>(random.Below(3)));
    ASSERT_EQ(keeping.size(), versions.size());
    bool newer_whole = false, newer_outlives_node = false;
    for (size_t i = 0; i < versions.size(); ++i) {
      const bool only_copy = versions[i].whole && !newer_whole && !versions[i].in_store;
      const bool owed = versions[i].whole && versions[i].owed;
      EXPECT_TRUE(!(only_copy || owed) || keeping[i] == Keeping::kPinned) << "round " << round << ", generation " << i;
      EXPECT_TRUE(!versions[i].whole || keeping[i] != Keeping::kDrop || newer_whole) << "round " << round;
      const bool outlives_node = versions[i].whole && (versions[i].at_node || versions[i].in_store);
      EXPECT_TRUE(!outlives_node || newer_outlives_node || keeping[i] != Keeping::kDrop || (versions[i].in_store && newer_whole))
          << "round " << round << ", generation " << i;
      newer_outlives_node = newer_outlives_node || outlives_node;
      newer_whole = newer_whole || versions[i].whole;
    }
  }
}

}  // namespace
}  // namespace kedge
