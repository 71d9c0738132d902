// What a halt leaves in the mailboxes and for a successor, and what is remembered of ranks that were told to exit. Mailboxes and
// files are real; the test is the ranks' process.
#include "agent/schedule/halts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "agent/door/sessions.h"
#include "agent/tables/session.h"
#include "agent/testing/local_agent.h"

namespace kedge {
namespace {

using testing::LocalAgent;

constexpr uint64_t kHaltsSlotBytes = 64 << 10;

HaltWhen Asked(const Session& session) {
  return UnpackedHalt(session.box().halt).when;
}

TEST(Halts, RankZeroFindsTheHaltAlsoInAMailboxToCome) {
  LocalAgent agent(1, kHaltsSlotBytes);
  Session& other = agent.Attach(1, 2);
  EXPECT_EQ(Asked(other), HaltWhen::kNever);
  const std::vector<HaltedJob> halted = agent->halts().Halt({"job", HaltWhen::kNow});
  ASSERT_EQ(halted.size(), 1u);
  EXPECT_FALSE(halted[0].has_rank_0);
  Session& first = agent.Attach(0, 2);
  EXPECT_EQ(Asked(first), HaltWhen::kNow);
  EXPECT_TRUE(agent->halts().Halt({"", HaltWhen::kNever})[0].has_rank_0);
  EXPECT_EQ(Asked(first), HaltWhen::kNever);
  EXPECT_TRUE(agent->halts().Halt({"another job", HaltWhen::kNow}).empty());
}

TEST(Halts, ASuccessorKnowsTheHalt) {
  LocalAgent agent(1, kHaltsSlotBytes);
  const uint32_t id = agent.Attach(0, 1).id;
  agent->halts().Halt({"job", HaltWhen::kAtOnce});
  const Halt asked = agent->core().sessions().Find(id)->job->halt;
  agent.Succeed();
  EXPECT_EQ(Packed(agent->core().sessions().Find(id)->job->halt), Packed(asked));
  EXPECT_EQ(Asked(agent.Attach(0, 1)), HaltWhen::kAtOnce);
}

TEST(Halts, WhoWasToldToExitIsRememberedUntilTheNextAttempt) {
  LocalAgent agent(1, kHaltsSlotBytes);
  Session& session = agent.Attach(0, 1);
  Job& job = *session.job;
  EXPECT_FALSE(agent->halts().IsExitTold(job));
  session.box().told_to_exit = 1;
  EXPECT_TRUE(agent->halts().IsExitTold(job));
  agent->sessions().End(session, "goodbye");
  EXPECT_TRUE(agent->halts().IsExitTold(job));
  Hello next = job.hello;
  ++next.attempt;
  ASSERT_TRUE(agent->sessions().Attach(next, getpid(), 1001).ok());
  EXPECT_FALSE(agent->halts().IsExitTold(job));
}

TEST(Halts, WhatFollowsDependsOnWhenTheNewestCheckpointEnded) {
  const Halt none, next{HaltWhen::kNextCheckpoint, 100}, now{HaltWhen::kNow, 100}, at_once{HaltWhen::kAtOnce, 100};
  EXPECT_FALSE(none.WantsCheckpoint(0) || none.WantsExit(200));
  EXPECT_FALSE(next.WantsCheckpoint(99) || next.WantsExit(100));
  EXPECT_TRUE(next.WantsExit(101));
  EXPECT_TRUE(now.WantsCheckpoint(0) && now.WantsCheckpoint(100));
  EXPECT_FALSE(now.WantsExit(100));
  EXPECT_FALSE(now.WantsCheckpoint(101));
  EXPECT_TRUE(now.WantsExit(101));
  EXPECT_TRUE(at_once.WantsExit(0));
  EXPECT_FALSE(at_once.WantsCheckpoint(0));
  for (const Halt& halt : {next, now, at_once}) {
    EXPECT_EQ(UnpackedHalt(Packed(halt)).when, halt.when);
    EXPECT_EQ(UnpackedHalt(Packed(halt)).asked_ns, halt.asked_ns);
  }
  EXPECT_FALSE(UnpackedHalt(Packed(Halt{HaltWhen::kNever, 100})).asked());
}

}  // namespace
}  // namespace kedge
