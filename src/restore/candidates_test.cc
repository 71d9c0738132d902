// The agreement on what can be restored: exact generations, over all ranks, newest first.
#include "restore/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kedge {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr RestoreCandidate kOld{1, 1, 1, 2};
constexpr RestoreCandidate kTakenTwice{2, 1, 2, 2};
constexpr RestoreCandidate kTaken{2, 1, 1, 2};
constexpr RestoreCandidate kRetaken{2, 3, 1, 2};
constexpr RestoreCandidate kNew{7, 3, 1, 2};

CommonCandidates Common(const std::vector<std::vector<RestoreCandidate>>& of_ranks) {
  std::vector<std::string> encoded;
  for (const auto& candidates : of_ranks) encoded.push_back(EncodeCandidates(candidates));
  auto result = IntersectCandidates(encoded);
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

TEST(Candidates, RefusesWhatIsNoList) {
  std::string cut = EncodeCandidates({kOld, kNew});
  cut.pop_back();
  EXPECT_EQ(IntersectCandidates({cut}).status().code(), Code::kInternal);
  EXPECT_EQ(IntersectCandidates({EncodeCandidates({}) + "x"}).status().code(), Code::kInternal);
}

}  // namespace
}  // namespace kedge
