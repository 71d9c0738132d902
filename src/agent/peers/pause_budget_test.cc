#include "agent/peers/pause_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace kedge {
namespace {

using namespace std::chrono_literals;

int64_t At(Duration time) {
  return time.count();
}

TEST(PauseBudgetTest, APhaseOfCommunicationPauses) {
  PauseBudget budget(500ms);
  EXPECT_EQ(budget.Look(false, 0, At(0ms)), 0ms);
  EXPECT_EQ(budget.Look(true, 1, At(10ms)), 500ms);
  EXPECT_EQ(budget.Look(false, 2, At(60ms)), 0ms);
  EXPECT_EQ(budget.paused(), 50ms);
  EXPECT_EQ(budget.Look(true, 3, At(80ms)), 470ms) << "20 ms have come back";
}

TEST(PauseBudgetTest, AHintThatIsNeverTakenBackPausesOnce) {
  PauseBudget budget(500ms);
  Duration time = 0ms;
  for (; time < 500ms; time += 1ms) ASSERT_EQ(budget.Look(true, 1, At(time)), 500ms - time);
  for (; time < 20s; time += 1ms) ASSERT_EQ(budget.Look(true, 1, At(time)), 0ms);
  EXPECT_EQ(budget.paused(), 500ms);
  EXPECT_EQ(budget.Look(true, 3, At(time)), 500ms) << "another hint";
}

TEST(PauseBudgetTest, IsTakenUpByWhoeverDoesNotLookForLong) {
  PauseBudget budget(500ms);
  EXPECT_EQ(budget.Look(true, 1, At(0ms)), 500ms);
  EXPECT_EQ(budget.Look(true, 3, At(700ms)), 0ms) << "paused for 500 ms of these, and 200 ms have come back";
  EXPECT_EQ(budget.paused(), 500ms);
  EXPECT_EQ(budget.Look(true, 3, At(900ms)), 0ms);
  EXPECT_EQ(budget.Look(true, 5, At(1000ms)), 500ms);
}

TEST(PauseBudgetTest, ABoundOfZeroNeverPauses) {
  PauseBudget budget(0ms);
  EXPECT_EQ(budget.Look(true, 1, At(0ms)), 0ms);
  EXPECT_EQ(budget.Look(true, 1, At(1s)), 0ms);
  EXPECT_EQ(budget.paused(), 0ms);
}

TEST(PauseBudgetTest, AClockThatStandsOrGoesBackDoesNoHarm) {
  PauseBudget budget(500ms);
  EXPECT_EQ(budget.Look(true, 1, At(1s)), 500ms);
  EXPECT_EQ(budget.Look(true, 1, At(1s)), 500ms);
  EXPECT_EQ(budget.Look(true, 1, At(0s)), 500ms);
  EXPECT_EQ(budget.paused(), 0ms);
}

class PauseBudgetProperty : public ::testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, PauseBudgetProperty, ::testing::Range<uint64_t>(0, 50));

// Whatever an application says: no pause is longer than the bound, and any stretch of time has paused at most half of it and one
// bound.
TEST_P(PauseBudgetProperty, LeavesHalfOfTheTime) {
  Random random(GetParam());
  const Duration bound = std::chrono::milliseconds(1 + random.Below(900));
  PauseBudget budget(bound);
  int64_t now_ns = 0;
  uint64_t hint = 0;
  std::vector<std::pair<int64_t, Duration>> looks;  // and what was paused by then
  Duration pause{};
  for (int i = 0; i < 2000; ++i) {
    now_ns += static_cast<int64_t>(random.Below(static_cast<uint64_t>(bound.count()) / 20 + 1));
    hint += random.Below(3);
    const Duration left = budget.Look((hint & 1) != 0, hint, now_ns);
    ASSERT_LE(left, bound);
    looks.emplace_back(now_ns, budget.paused());
    const Duration before = i == 0 ? Duration::zero() : looks[looks.size() - 2].second;
    pause = budget.paused() > before ? pause + (budget.paused() - before) : Duration::zero();
    ASSERT_LE(pause, bound) << "without a moment between";
  }
  for (size_t i = 0; i < looks.size(); i += 37) {
    for (size_t j = i; j < looks.size(); j += 41) {
      const Duration time(looks[j].first - looks[i].first);
      ASSERT_LE(looks[j].second - looks[i].second, time / 2 + bound);
    }
  }
  EXPECT_GT(budget.paused(), 0ms);
}

}  // namespace
}  // namespace kedge
