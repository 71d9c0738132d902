// Levels by count and by time; what stays on the node, with the rule that nothing is lost checked over random histories.
#include "schedule/schedule.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace kedge {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kStart = 1'700'000'000 * kSecond;

char Letter(const ScheduledLevels& levels) {
  return levels.node && levels.store ? 'B' : levels.store ? 'S' : levels.node ? 'N' : 'l';
}

TEST(LevelsByCount, EveryNthOfAnAttempt) {
  std::string levels;
  for (uint32_t turn = 0; turn < 7; ++turn) levels += Letter(LevelsByCount({2, 3}, turn));
  EXPECT_EQ(levels, "BlNSNlB");
  for (uint32_t turn = 0; turn < 5; ++turn) EXPECT_EQ(LevelsByCount({0, 0}, turn), ScheduledLevels{}) << "off";
}

TEST(LevelsByCount, WhatIsToldChangesWhatIsOn) {
  EXPECT_EQ(ChangedLevels({2, 3}, {4, 8}), (LevelCounts{4, 8}));
  EXPECT_EQ(ChangedLevels({0, 3}, {4, 8}), (LevelCounts{0, 8})) << "a level that is off stays off";
  EXPECT_EQ(ChangedLevels({2, 0}, {4, 8}), (LevelCounts{4, 0}));
  EXPECT_EQ(ChangedLevels({2, 3}, {0, 8}), (LevelCounts{2, 8})) << "and nothing turns one off";
  EXPECT_EQ(ChangedLevels({2, 3}, {}), (LevelCounts{2, 3}));
  JobKeys keys;
  keys.schedule_node = 4;
  keys.schedule_store = 6;
  EXPECT_EQ(ConfiguredLevels(keys), (LevelCounts{0, 6})) << "nodes do not protect each other";
  keys.protect_scheme = ProtectScheme::kXor;
  EXPECT_EQ(ConfiguredLevels(keys), (LevelCounts{4, 6}));
}

TEST(LevelsByCount, TravelAsOneWordAndAsBits) {
  for (const LevelCounts& counts : {LevelCounts{}, LevelCounts{1, 2}, LevelCounts{kLevelEveryMax, kLevelEveryMax}}) {
    EXPECT_EQ(UnpackedLevels(Packed(counts)), counts);
  }
  EXPECT_TRUE(UnpackedLevels(Packed({kLevelEveryMax + 1, 1})).none()) << "scribbled";
  EXPECT_TRUE(UnpackedLevels(~uint64_t{0}).none());
  for (const bool node : {false, true}) {
    for (const bool store : {false, true}) {
      const ScheduledLevels levels{node, store};
      EXPECT_EQ(DecodeDueLevels(EncodeDueLevels(levels)), levels);
      EXPECT_EQ(DecodeDueLevels(EncodeDueLevels(levels) | ~uint32_t{3}), levels) << "other bits mean nothing";
    }
  }
}

TEST(ScheduleVersion, TheLastLevelIsTheHighest) {
  EXPECT_EQ((ScheduledLevels{false, false}).Last(), Level::kLocal);
  EXPECT_EQ((ScheduledLevels{true, false}).Last(), Level::kNode);
  EXPECT_EQ((ScheduledLevels{true, true}).Last(), Level::kStore);
  EXPECT_EQ((ScheduledLevels{false, true}).Last(), Level::kStore);
}

TEST(ScheduleVersion, WhatIsDueAsFarAsItIsAllowed) {
  ScheduleState state;
  EXPECT_EQ(Letter(ScheduleVersion({{}, {}}, {true, true}, 1, kStart, &state)), 'B');
  EXPECT_EQ(Letter(ScheduleVersion({{}, {}}, {false, true}, 1, kStart, &state)), 'S');
  EXPECT_EQ(Letter(ScheduleVersion({{false, {}}, {}}, {true, true}, 1, kStart, &state)), 'S');
  EXPECT_EQ(Letter(ScheduleVersion({{false, {}}, {false, {}}}, {true, true}, 1, kStart, &state)), 'l');
}

TEST(ScheduleVersion, OneInEachSpan) {
  ScheduleState state;
  const ScheduleRule rule{{false, {}}, {true, std::chrono::seconds(10)}};  // kStart is the beginning of a span
  const auto level = [&](uint32_t attempt, int64_t seconds) {
    return ScheduleVersion(rule, {false, true}, attempt, kStart + seconds * kSecond, &state).Last();
  };
  EXPECT_EQ(level(1, 3), Level::kStore);
  EXPECT_EQ(level(1, 9), Level::kLocal);
  EXPECT_EQ(level(1, 10), Level::kStore);
  EXPECT_EQ(level(1, -3600), Level::kStore) << "the clock was set back";
  EXPECT_EQ(level(1, -3599), Level::kLocal);
  EXPECT_EQ(level(2, -3598), Level::kStore) << "the first of an attempt";
}

TEST(ScheduleVersion, ANodeThatJoinsLateDecidesAsTheOthersDo) {
  // One node has seen every version, another was without an agent now and then, a third begins at version 7. The counts change
  // on the way.
  for (const Duration interval : {Duration::zero(), Duration(std::chrono::seconds(30))}) {
    const ScheduleRule rule{{false, {}}, {true, interval}};
    Random random(7);
    ScheduleState always, sometimes, late;
    for (uint32_t turn = 0; turn < 400; ++turn) {
      const ScheduledLevels due = LevelsByCount({0, turn < 200 ? 2u : 5u}, turn);
      const int64_t now = kStart + turn * 7 * kSecond;
      const Level level = ScheduleVersion(rule, due, 1, now, &always).Last();
      const Level first = random.Below(4) > 0 ? ScheduleVersion(rule, due, 1, now, &sometimes).Last() : level;
      const Level second = turn >= 7 ? ScheduleVersion(rule, due, 1, now, &late).Last() : level;
      // What a node did not see may have been the first of a span: it can only store one more, never one less.
      EXPECT_TRUE(first == level || (first > level && interval > Duration::zero())) << turn;
      EXPECT_TRUE(second == level || (second > level && interval > Duration::zero())) << turn;
    }
  }
}

// Of a job on one node. The version is for the reader: their order says it.
LocalGeneration Whole(int64_t, bool owed, bool in_store) {
  LocalGeneration generation{1, 1, true, false, owed, in_store};
  generation.at_local = true;
  return generation;
}

// Of several nodes, of which no other was heard to have it.
LocalGeneration Unheard(int64_t version) {
  LocalGeneration generation = Whole(version, false, false);
  generation.at_local = false;
  return generation;
}

TEST(KeepLocal, WhatAllNodesHaveStaysUntilTheyHaveANewerOne) {
  using enum Keeping;
  LocalGeneration promised = Unheard(4);
  promised.promised = true;
  const LocalGeneration stored = Whole(2, false, true), local = Whole(2, false, false), older = Whole(1, false, false);
  EXPECT_EQ(KeepLocal(std::vector{Unheard(3), local, older}, 1), (std::vector{kPinned, kPinned, kDrop}));
  EXPECT_EQ(KeepLocal(std::vector{Unheard(3), stored, older}, 1), (std::vector{kPinned, kEvictable, kDrop}));
  EXPECT_EQ(KeepLocal(std::vector{Unheard(5), Unheard(4), Unheard(3), local}, 1),
            (std::vector{kPinned, kPinned, kDrop, kPinned}));
  EXPECT_EQ(KeepLocal(std::vector{Unheard(6), Unheard(5), promised, Unheard(3), local}, 1),
            (std::vector{kPinned, kEvictable, kPinned, kDrop, kPinned}))
      << "the others may have stopped at 5: their ranks write to the store themselves where an agent is gone";
  EXPECT_EQ(KeepLocal(std::vector{Whole(5, false, false), promised, local}, 1), (std::vector{kPinned, kPinned, kDrop}))
      << "a promise is kept until it is taken back";
  LocalGeneration at_node = Unheard(3);
  at_node.at_node = true;
  EXPECT_EQ(KeepLocal(std::vector{Unheard(4), at_node, local}, 1), (std::vector{kPinned, kPinned, kDrop}));
}

TEST(KeepLocal, WhatTheJobHasLeftBehindDisplacesNothing) {
  LocalGeneration abandoned = Whole(5, false, true);
  abandoned.abandoned = true;
  EXPECT_EQ(KeepLocal(std::vector{abandoned, Whole(2, false, false)}, 1), (std::vector{Keeping::kDrop, Keeping::kPinned}));
  abandoned.owed = true;
  EXPECT_EQ(KeepLocal(std::vector{abandoned, Whole(2, false, false)}, 1), (std::vector{Keeping::kPinned, Keeping::kPinned}));
}

TEST(KeepLocal, TheOnlyCopyOfWhatWasLeftBehindStaysUntilSomethingLaterIsComplete) {
  LocalGeneration abandoned = Whole(5, false, false), origin = Whole(2, false, true), later = Whole(3, false, false);
  abandoned.abandoned = true;
  abandoned.take = 3;
  later.take = 4;
  EXPECT_EQ(KeepLocal(std::vector{abandoned, origin}, 1), (std::vector{Keeping::kEvictable, Keeping::kEvictable}));
  EXPECT_EQ(KeepLocal(std::vector{abandoned, later, origin}, 1).front(), Keeping::kDrop);
  later.at_local = false;
  EXPECT_EQ(KeepLocal(std::vector{abandoned, later, origin}, 1).front(), Keeping::kEvictable) << "other nodes may lack it";
  EXPECT_EQ(KeepLocal(std::vector{abandoned, origin}, 1, {1, 3}).front(), Keeping::kEvictable);
  EXPECT_EQ(KeepLocal(std::vector{abandoned, origin}, 1, {2, 1}).front(), Keeping::kDrop) << "the store has it";
  abandoned.whole = false;
  EXPECT_EQ(KeepLocal(std::vector{abandoned, origin}, 1).front(), Keeping::kDrop) << "nobody could restore it";
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

// A job that does not find what it wants to go on from takes lower versions than an earlier attempt has left.
TEST(KeepLocal, WhoBeginsAnewKeepsWhatIsTaken) {
  using enum Keeping;
  const auto in_attempt = [](LocalGeneration generation, uint32_t attempt) {
    generation.attempt = attempt;
    return generation;
  };
  const LocalGeneration former = in_attempt(Whole(6, false, false), 1);
  LocalGeneration begun = in_attempt(Whole(2, false, false), 2);
  begun.whole = false;
  EXPECT_EQ(KeepLocal(std::vector{former, begun}, 1), (std::vector{kPinned, kPinned}));
  LocalGeneration unheard = in_attempt(Whole(3, false, false), 2);
  unheard.at_local = false;
  EXPECT_EQ(KeepLocal(std::vector{former, unheard, begun}, 1), (std::vector{kPinned, kPinned, kDrop}));
  LocalGeneration before = in_attempt(Whole(2, false, false), 1);
  EXPECT_EQ(KeepLocal(std::vector{former, unheard, before}, 1), (std::vector{kPinned, kPinned, kDrop}));
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
      generation.at_local = random.Chance(0.5);
      generation.promised = generation.whole && random.Chance(0.2);
      versions.push_back(generation);
    }
    auto keeping = KeepLocal(versions, static_cast<uint32_t>(random.Below(3)));
    ASSERT_EQ(keeping.size(), versions.size());
    bool newer_whole = false, newer_outlives_node = false, newer_complete = false;
    int newer = 0;  // whole
    for (size_t i = 0; i < versions.size(); ++i) {
      const bool only_copy = versions[i].whole && !newer_whole && !versions[i].in_store;
      const bool owed = versions[i].whole && versions[i].owed;
      EXPECT_TRUE(!(only_copy || owed) || keeping[i] == Keeping::kPinned) << "round " << round << ", generation " << i;
      EXPECT_TRUE(!versions[i].whole || keeping[i] != Keeping::kDrop || newer_whole) << "round " << round;
      const bool outlives_node = versions[i].whole && (versions[i].at_node || versions[i].in_store);
      EXPECT_TRUE(!outlives_node || newer_outlives_node || keeping[i] != Keeping::kDrop || (versions[i].in_store && newer_whole))
          << "round " << round << ", generation " << i;
      const bool is_complete = versions[i].whole && versions[i].IsComplete();
      EXPECT_TRUE(!is_complete || newer_complete || keeping[i] != Keeping::kDrop) << "round " << round << ", generation " << i;
      EXPECT_TRUE(!versions[i].promised || keeping[i] == Keeping::kPinned) << "round " << round << ", generation " << i;
      const bool may_be_newest_of_all = versions[i].whole && !newer_complete && newer < 2;
      EXPECT_TRUE(!may_be_newest_of_all || keeping[i] != Keeping::kDrop) << "round " << round << ", generation " << i;
      newer += versions[i].whole ? 1 : 0;
      newer_complete = newer_complete || is_complete;
      newer_outlives_node = newer_outlives_node || outlives_node;
      newer_whole = newer_whole || versions[i].whole;
    }
  }
}

}  // namespace
}  // namespace kedge
