// The agreement on what can be restored: exact generations, over all ranks, newest first.
#include "restore/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kedge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr RestoreCandidate kOld{1, 1, 1, 2};
constexpr RestoreCandidate kTakenTwice{2, 1, 2, 2};
constexpr RestoreCandidate kTaken{2, 1, 1, 2};
constexpr RestoreCandidate kRetaken{2, 3, 1, 2};
constexpr RestoreCandidate kNew{7, 3, 1, 2};

CommonCandidates Common(const std::vector<std::vector<RestoreCandidate>>& of_ranks, const CandidateRule& rule = {}) {
  std::vector<std::string> encoded;
  for (const auto& candidates : of_ranks) encoded.push_back(EncodeCandidates(candidates, 0));
  auto result = IntersectCandidates(encoded, rule);
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return result.ok() ? *result : CommonCandidates{};
}

std::vector<RestoreCandidate> Intersect(const std::vector<std::vector<RestoreCandidate>>& of_ranks) {
  return Common(of_ranks).candidates;
}

TEST(Candidates, OneRankGetsItsOwnNewestFirst) {
  EXPECT_THAT(Intersect({{kOld, kNew, kTaken, kRetaken, kTakenTwice, kNew}}),
              ElementsAre(kNew, kRetaken, kTakenTwice, kTaken, kOld));
}

TEST(Candidates, OnlyWhatAllRanksHave) {
  EXPECT_THAT(Intersect({{kNew, kTaken, kOld}, {kOld, kTaken}, {kTaken, kOld, kNew}}), ElementsAre(kTaken, kOld));
  EXPECT_THAT(Intersect({{kNew}, {}}), IsEmpty());
}

TEST(Candidates, TheSameVersionOfAnotherTakingIsAnother) {
  EXPECT_THAT(Intersect({{kTaken}, {kTakenTwice}}), IsEmpty());
  EXPECT_THAT(Intersect({{kRetaken, kTaken}, {kTaken}}), ElementsAre(kTaken));
}

TEST(Candidates, TheRankCountIsPartOfIt) {
  EXPECT_THAT(Intersect({{{1, 1, 1, 2}}, {{1, 1, 1, 3}}}), IsEmpty());
}

TEST(Candidates, ARankMayKnowOfANewerOneThanOthers) {
  EXPECT_TRUE(Common({{kNew, kOld}, {kOld, kNew}}).is_newest);
  EXPECT_TRUE(Common({{}, {}}).is_newest);
  EXPECT_FALSE(Common({{kOld}, {kNew, kOld}, {kOld}}).is_newest);
  EXPECT_FALSE(Common({{}, {kOld}}).is_newest);
  EXPECT_TRUE(Common({{kNew, kTaken}, {kNew, kOld}}).is_newest);
}

RestoredRecord Restored(uint32_t attempt, const RestoreCandidate& origin) {
  return {{{}, "job", "name", origin.version, origin.attempt, origin.take}, attempt, 1, 0};
}

TEST(Candidates, WhatTheJobWentBackFromIsNotAmongThem) {
  constexpr RestoreCandidate k30{30, 1, 1, 2}, k40{40, 1, 2, 2}, k50{50, 1, 3, 2}, k42{42, 2, 1, 2};
  const CandidateRule went_back{{Restored(2, k40)}, {}, {}};
  const CommonCandidates common = Common({{k30, k40, k50, k42}, {k30, k40, k50, k42}}, went_back);
  EXPECT_THAT(common.candidates, ElementsAre(k42, k40, k30));
  EXPECT_THAT(common.abandoned, ElementsAre(k50));
  EXPECT_TRUE(common.is_newest);
  // A node that comes late with what was abandoned makes nobody look further.
  EXPECT_TRUE(Common({{k40, k50}, {k40}}, went_back).is_newest);
  EXPECT_FALSE(Common({{k40, k42}, {k40}}, went_back).is_newest);
}

TEST(Candidates, WhatSomebodyHasRemovedIsNeitherChosenNorLookedFor) {
  const CandidateRule rule{{}, {}, {{kNew.version, kNew.attempt, kNew.take, 0}}};
  const CommonCandidates common = Common({{kNew, kOld}, {kNew, kOld}}, rule);
  EXPECT_THAT(common.candidates, ElementsAre(kOld));
  EXPECT_THAT(common.abandoned, IsEmpty());
  EXPECT_TRUE(Common({{kNew, kOld}, {kOld}}, rule).is_newest);
  EXPECT_THAT(Common({{kRetaken, kTaken}, {kRetaken, kTaken}}, {{}, {}, {kRetaken}}).candidates, ElementsAre(kTaken));
  StoredCandidates stored;
  stored.withdrawn = {kNew, kTaken};
  EXPECT_EQ(DecodeStored(EncodeStored(stored))->withdrawn, stored.withdrawn);
}

TEST(Candidates, ARankWhoseImageIsMissingIsNamed) {
  StoredCandidates stored;
  EXPECT_EQ(WhatIsMissing(stored), "");
  stored.candidates.push_back({{5, 1, 1, 4}, {{0, 1, 2}}});
  stored.candidates.push_back({{4, 1, 1, 4}, {}});
  EXPECT_THAT(WhatIsMissing(stored), HasSubstr("no image of rank 2 of version 5"));
}

TEST(Candidates, WhatIsAskedForStandsAlone) {
  constexpr RestoreCandidate k40{40, 1, 2, 2}, k50{50, 1, 3, 2}, k45{45, 1, 4, 2}, k42{42, 2, 1, 2};
  const CandidateRule rule{{Restored(2, k40)}, {50, 1}, {}};
  const CommonCandidates common = Common({{k40, k50, k45, k42}, {k40, k50, k45, k42}}, rule);
  EXPECT_THAT(common.candidates, ElementsAre(k50));
  EXPECT_THAT(common.abandoned, ElementsAre(k45)) << "the lineage's are not abandoned";
  EXPECT_TRUE(common.is_newest && common.goes_back && !common.misses_asked);
  // What some ranks lack is looked for everywhere, and not passed over.
  const CommonCandidates in_part = Common({{k40, k50, k42}, {k40, k42}}, rule);
  EXPECT_THAT(in_part.candidates, IsEmpty());
  EXPECT_TRUE(in_part.goes_back && !in_part.is_newest);
  const CommonCandidates gone = Common({{k40, k42}, {k40, k42}}, rule);
  EXPECT_THAT(gone.candidates, ElementsAre(k42, k40));
  EXPECT_TRUE(!gone.goes_back && gone.misses_asked);
}

TEST(Candidates, WhatWasTakenLaterIsLookedForEverywhere) {
  // The second attempt began anew; one rank's node lacks its version, so that it cannot count as complete here.
  constexpr RestoreCandidate k50{50, 1, 1, 2}, kAnew{1, 2, 1, 2};
  EXPECT_FALSE(Common({{k50, kAnew}, {k50}}).is_newest);
  EXPECT_THAT(Intersect({{k50, kAnew}, {k50, kAnew}}), ElementsAre(kAnew));
}

TEST(Candidates, RefusesWhatIsNoList) {
  std::string cut = EncodeCandidates({kOld, kNew}, 0);
  cut.pop_back();
  EXPECT_EQ(IntersectCandidates({cut}, {}).status().code(), Code::kInternal);
  EXPECT_EQ(IntersectCandidates({EncodeCandidates({}, 0) + "x"}, {}).status().code(), Code::kInternal);
}

}  // namespace
}  // namespace kedge
