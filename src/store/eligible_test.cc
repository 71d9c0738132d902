// What a restart may choose when it is asked for one version of one attempt.
#include "store/eligible.h"

#include <gtest/gtest.h>

#include <set>

namespace kedge {
namespace {

Generation Taken(int64_t version, uint32_t attempt, uint32_t take) {
  return {{.high = 1, .low = 2}, "job", "wave", version, attempt, take};
}

std::set<int64_t> MayBeChosen(const std::vector<RestoredRecord>& restored, const AskedVersion& asked,
                              const std::vector<Generation>& all) {
  const Lineage lineage(restored, all);
  const Eligible eligible(lineage, asked, restored, all);
  std::set<int64_t> versions;
  for (const Generation& generation : all) {
    if (eligible.Has(generation)) versions.insert(generation.version);
  }
  return versions;
}

const std::vector<Generation> kHistory = {Taken(40, 1, 1), Taken(50, 1, 2), Taken(42, 2, 1)};
const RestoredRecord kWentBack{Taken(40, 1, 1), 2, 1, 0};

TEST(Eligible, AnAbandonedVersionIsHadByVersionAndAttempt) {
  EXPECT_EQ(MayBeChosen({kWentBack}, {}, kHistory), (std::set<int64_t>{40, 42}));
  EXPECT_EQ(MayBeChosen({kWentBack}, {50, 1}, kHistory), (std::set<int64_t>{50}));
  EXPECT_EQ(MayBeChosen({kWentBack}, {50, 2}, kHistory), (std::set<int64_t>{40, 42})) << "there is none of that attempt";
  EXPECT_EQ(MayBeChosen({kWentBack}, {40, 1}, kHistory), (std::set<int64_t>{40, 42})) << "it is of the lineage";
}

TEST(Eligible, WhoHasGoneOnFromItFollowsTheLineage) {
  const RestoredRecord restored{Taken(50, 1, 2), 3, 1, 0};
  EXPECT_EQ(MayBeChosen({kWentBack, restored}, {50, 1}, kHistory), (std::set<int64_t>{40, 50}));
  std::vector<Generation> all = kHistory;
  all.push_back(Taken(60, 3, 1));
  EXPECT_EQ(MayBeChosen({kWentBack, restored}, {50, 1}, all), (std::set<int64_t>{40, 50, 60}));
  // Left once more, for another reason.
  EXPECT_EQ(MayBeChosen({kWentBack, restored, {Taken(40, 1, 1), 4, 1, 0}}, {50, 1}, all), (std::set<int64_t>{50}));
}

// A taking that went wrong, and the one in its place.
TEST(Eligible, OneTakingOfItInTheLineageIsEnough) {
  const std::vector<Generation> all = {Taken(40, 1, 1), Taken(50, 1, 2), Taken(50, 1, 4)};
  EXPECT_EQ(MayBeChosen({{Taken(40, 1, 1), 1, 4, 0}}, {50, 1}, all), (std::set<int64_t>{40, 50}));
}

TEST(Eligible, WhatIsThereInPartStandsBeforeTheRest) {
  const std::vector<Generation> whole = {Taken(40, 1, 1), Taken(42, 2, 1)};
  const Lineage lineage({kWentBack}, whole);
  const AskedVersion asked{50, 1};
  const Eligible eligible(lineage, asked, {kWentBack}, kHistory);
  EXPECT_TRUE(eligible.goes_back());
  EXPECT_FALSE(eligible.misses_asked());
  EXPECT_FALSE(eligible.Has(Taken(42, 2, 1)));
}

TEST(Eligible, WhatIsGoneIsMissedUnlessTheJobHasGoneOnFromIt) {
  const AskedVersion asked{50, 1};
  const std::vector<Generation> left = {Taken(40, 1, 1), Taken(42, 2, 1)};
  const std::vector<RestoredRecord> before = {{Taken(50, 1, 2), 2, 1, 0}, {Taken(40, 1, 1), 2, 2, 0}};
  EXPECT_TRUE(Eligible(Lineage(before, left), asked, before, left).misses_asked()) << "that was before it was abandoned";
  const std::vector<RestoredRecord> since = {kWentBack, {Taken(50, 1, 2), 3, 1, 0}};
  const Lineage lineage(since, left);
  EXPECT_FALSE(Eligible(lineage, asked, since, left).misses_asked());
  EXPECT_FALSE(Eligible(lineage, {}, since, left).misses_asked()) << "nothing is asked for";
}

}  // namespace
}  // namespace kedge
