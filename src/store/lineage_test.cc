// What belongs to the job's history and what was left behind: case by case, and every short history against a plain record
// of who came from whom.
#include "store/lineage.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

namespace kedge {
namespace {

Generation At(int64_t version, uint32_t attempt, uint32_t take = 1) {
  return {{.high = 1, .low = 2}, "job", "wave", version, attempt, take};
}
RestoredRecord Restored(uint32_t attempt, uint32_t take, const Generation& origin) {
  return {origin, attempt, take, 0};
}
// The versions of `all` that are of the lineage, as all of `all` are complete.
std::set<Generation> Of(const std::vector<RestoredRecord>& restored, const std::vector<Generation>& all) {
  const Lineage lineage(restored, all);
  std::set<Generation> members;
  for (const Generation& generation : all) {
    if (lineage.Has(generation)) members.insert(generation);
  }
  return members;
}

TEST(Lineage, OfNothingEverythingWouldBe) {
  EXPECT_TRUE(Lineage({}, {}).Has(At(7, 3)));
}

TEST(Lineage, WhoNeverGoesBackKeepsAll) {
  const std::vector<Generation> all = {At(30, 1), At(40, 1), At(50, 2), At(60, 4)};
  EXPECT_EQ(Of({}, all).size(), 4u);
  EXPECT_EQ(Of({Restored(2, 1, At(40, 1)), Restored(4, 1, At(50, 2))}, all).size(), 4u);
}

TEST(Lineage, ARestartLeavesWhatWasAboveItBehindAtOnce) {
  const std::vector<Generation> all = {At(30, 1), At(40, 1), At(50, 1)};
  const std::vector<RestoredRecord> restored = {Restored(2, 1, At(40, 1))};
  EXPECT_EQ(Of(restored, all), (std::set<Generation>{At(30, 1), At(40, 1)}));
  EXPECT_EQ(Of(restored, {At(40, 1), At(42, 2), At(44, 2), At(50, 1)}), (std::set<Generation>{At(40, 1), At(42, 2), At(44, 2)}));
}

TEST(Lineage, WhatComesLateIsAbandonedAlready) {
  const Lineage lineage({Restored(2, 1, At(40, 1))}, {At(40, 1), At(42, 2)});
  EXPECT_FALSE(lineage.Has(At(50, 1)));
  EXPECT_FALSE(lineage.Has(At(41, 1)));
  EXPECT_TRUE(lineage.Has(At(35, 1)));
  EXPECT_TRUE(lineage.Has(At(46, 2)));
  EXPECT_TRUE(lineage.Has(At(48, 3))) << "of a launch that goes on";
}

TEST(Lineage, BackAndForthInOneAttempt) {
  // 10, 20, 30; back to 10: 15, 25; forth to 30, which was abandoned: 40.
  const std::vector<Generation> all = {At(10, 1, 1), At(20, 1, 1), At(30, 1, 1), At(15, 1, 2), At(25, 1, 2), At(40, 1, 3)};
  std::vector<RestoredRecord> restored = {Restored(1, 2, At(10, 1, 1))};
  const std::vector<Generation> until_then(all.begin(), all.begin() + 5);
  EXPECT_EQ(Of(restored, until_then), (std::set<Generation>{At(10, 1, 1), At(15, 1, 2), At(25, 1, 2)}));
  restored.push_back(Restored(1, 3, At(30, 1, 1)));
  EXPECT_EQ(Of(restored, all), (std::set<Generation>{At(10, 1, 1), At(20, 1, 1), At(30, 1, 1), At(40, 1, 3)}));
}

TEST(Lineage, WhoBeginsAnewWithoutARestartCountsOnceSomethingIsComplete) {
  EXPECT_EQ(Of({}, {At(40, 1), At(50, 1)}).size(), 2u) << "the second attempt has nothing yet";
  EXPECT_EQ(Of({}, {At(1, 1), At(40, 1), At(50, 1), At(1, 2)}), (std::set<Generation>{At(1, 1), At(1, 2)}));
}

TEST(Lineage, WhatIsTakenRightAfterARestartMayOverwriteItsOrigin) {
  const std::vector<RestoredRecord> restored = {Restored(2, 1, At(40, 1, 2))};
  const std::vector<Generation> before = {At(30, 1, 1), At(40, 1, 2)};
  EXPECT_EQ(Of(restored, before).size(), 2u);
  EXPECT_EQ(Of(restored, {before[0], before[1], At(35, 2, 1)}), (std::set<Generation>{At(30, 1, 1), At(35, 2, 1)}));
}

TEST(Lineage, TheVersionsOfAHolderThatLivesOnAreLeftBehind) {
  // The second attempt goes on from 50 without a word; the first, which has lost its lease, takes 60 and 70.
  EXPECT_EQ(Of({}, {At(50, 1), At(55, 2), At(60, 1), At(70, 1)}), (std::set<Generation>{At(50, 1), At(55, 2)}));
}

TEST(Lineage, ALowerOriginBoundsAllBefore) {
  // 50 was abandoned by the second attempt; the third goes back further.
  const std::vector<RestoredRecord> restored = {Restored(2, 1, At(40, 1)), Restored(3, 1, At(30, 1))};
  EXPECT_EQ(Of(restored, {At(30, 1), At(40, 1), At(50, 1), At(42, 2), At(31, 3)}), (std::set<Generation>{At(30, 1), At(31, 3)}));
}

TEST(Lineage, ARecordThatLeadsForwardsIsNone) {
  EXPECT_EQ(Of({Restored(1, 1, At(40, 2))}, {At(30, 1), At(40, 2)}).size(), 2u);
  EXPECT_EQ(Of({Restored(1, 1, At(30, 1))}, {At(30, 1), At(40, 1)}).size(), 2u);
}

TEST(Lineage, WhoCouldNotKnowOfOthersAbandonsNothingOfThem) {
  // 900 began without the store, which had the first attempt; the second one took 60 elsewhere. 901 knew of 900.
  const auto beside = [](uint32_t attempt, const Generation& origin) {
    RestoredRecord record = Restored(attempt, 1, origin);
    record.beside = {2, 900};
    return record;
  };
  const std::vector<Generation> elsewhere = {At(40, 1), At(50, 1), At(60, 2)};
  const std::vector<RestoredRecord> restored = {beside(900, At(40, 1)), beside(901, At(40, 1)), Restored(2, 1, At(50, 1))};
  EXPECT_EQ(Of(restored, elsewhere).size(), 3u);
  EXPECT_EQ(Of(restored, {At(40, 1), At(50, 1)}), (std::set<Generation>{At(40, 1)})) << "which they knew";
  EXPECT_EQ(Of(restored, {At(40, 1), At(50, 1), At(60, 2), At(42, 901)}), (std::set<Generation>{At(40, 1), At(42, 901)}));
  EXPECT_EQ(Of({restored[1]}, {At(40, 1), At(50, 900)}), (std::set<Generation>{At(40, 1)}));
}

// Plays histories of launches, checkpoints and restarts, and remembers who came from whom.
class History {
 public:
  void Launch() { now_ = {now_.attempt + 1, 1}; }
  void Take() { Take(tip_ ? tip_->version + 10 : 10); }
  // What is not below it is left behind. No two versions of a short history are of one number.
  void Overwrite() { Take(tip_->version - 3); }
  // Counts as the client does (client/core/ledger.h): at the moment of what is taken next.
  void Restart(const Generation& origin) {
    if (restored_before_ == now_) ++now_.take;
    restored_before_ = now_;
    restored_.push_back(Restored(now_.attempt, now_.take, origin));
    tip_ = origin;
  }
  std::set<Generation> Truth() const {
    std::set<Generation> ancestors;
    for (std::optional<Generation> one = tip_; one; one = parents_.at(*one)) ancestors.insert(*one);
    return ancestors;
  }
  const std::vector<Generation>& all() const { return all_; }
  std::set<Generation> Said() const { return Of(restored_, all_); }
  bool CanOverwrite() const { return tip_ && tip_->version >= 3; }

 private:
  void Take(int64_t version) {
    const Generation taken = At(version, now_.attempt, now_.take++);
    std::optional<Generation> parent = tip_;
    while (parent && parent->version > version) parent = parents_.at(*parent);
    parents_[taken] = parent;
    all_.push_back(taken);
    tip_ = taken;
  }

  Moment now_{1, 1};  // of what comes next
  Moment restored_before_;
  std::optional<Generation> tip_;
  std::vector<Generation> all_;
  std::vector<RestoredRecord> restored_;
  std::map<Generation, std::optional<Generation>> parents_;
};

// Every history of so many steps after `history`, each launch being followed by a restart from any generation there is.
void PlayAll(const History& history, int steps, uint64_t* played) {
  ++*played;
  ASSERT_EQ(history.Said(), history.Truth()) << steps;
  if (steps == 0) return;
  History taken = history;
  taken.Take();
  PlayAll(taken, steps - 1, played);
  if (history.CanOverwrite()) {
    History overwritten = history;
    overwritten.Overwrite();
    PlayAll(overwritten, steps - 1, played);
  }
  for (const Generation& origin : history.all()) {
    for (const bool launches : {false, true}) {
      History restarted = history;
      if (launches) restarted.Launch();
      restarted.Restart(origin);
      PlayAll(restarted, steps - 1, played);
    }
  }
}

TEST(Lineage, EveryShortHistoryIsToldFromItsRecords) {
  uint64_t played = 0;
  PlayAll({}, 7, &played);
  EXPECT_GT(played, 5'000u);
}

}  // namespace
}  // namespace kedge
