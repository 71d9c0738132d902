// The counts of levels that rank 0 finds in its mailbox. Mailboxes and files are real; the test is the ranks' process.
#include "agent/schedule/tuning.h"

#include <gtest/gtest.h>

#include <chrono>

#include "agent/door/sessions.h"
#include "agent/tables/session.h"
#include "agent/testing/local_agent.h"

namespace kedge {
namespace {

using testing::LocalAgent;

constexpr uint64_t kTuningSlotBytes = 64 << 10;
constexpr LevelCounts kConfigured{0, 40};
constexpr LevelCounts kTold{0, 7};

JobKeys Keys(bool adapt_levels) {
  JobKeys keys;
  keys.schedule_interval = std::chrono::hours(1);
  keys.schedule_store = kConfigured.store_every;
  keys.schedule_adapt_levels = adapt_levels;
  return keys;
}

// The rank that showed what holds is gone, and with it its mailbox, and the other one has not settled it yet: the job's file
// knows.
TEST(Tuning, ARankBeginsWithTheCountsThatHeldAlsoWithAnotherAgent) {
  LocalAgent agent(1, kTuningSlotBytes);
  agent.Attach(1, 2, Keys(/*adapt_levels=*/true));
  Session& first = agent.Attach(0, 2, Keys(/*adapt_levels=*/true));
  EXPECT_EQ(UnpackedLevels(first.box().told_levels), kConfigured);
  first.box().levels_in_force = Packed(kTold);
  EXPECT_EQ(agent->tuning().LevelsToTell(*first.job), kTold);
  agent->sessions().End(first, "it begins anew");
  agent.Succeed();
  EXPECT_EQ(UnpackedLevels(agent.Attach(0, 2, Keys(/*adapt_levels=*/true)).box().told_levels), kTold);
}

TEST(Tuning, WithoutTheKeyNothingIsSaidOfCounts) {
  LocalAgent agent(1, kTuningSlotBytes);
  Session& session = agent.Attach(0, 1, Keys(/*adapt_levels=*/false));
  session.box().levels_in_force = Packed(kTold);
  agent->tuning().Tick();  // sees what the rank shows
  EXPECT_TRUE(agent->tuning().LevelsToTell(*session.job).none());
  EXPECT_TRUE(UnpackedLevels(session.box().told_levels).none());
  EXPECT_EQ(agent->tuning().LevelsInForce(*session.job), kTold) << "what the ranks show holds all the same";
}

}  // namespace
}  // namespace kedge
