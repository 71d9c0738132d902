// The counts of levels that come with a "due", and who must not lose them: a successor whose predecessor had told one rank and
// not the others, a rank that begins in a new mailbox, an attempt after the agent was another one. Mailboxes and files are real;
// the test is the ranks' process.
#include "agent/schedule/call_questions.h"

#include <gtest/gtest.h>

#include <vector>

#include "agent/door/sessions.h"
#include "agent/schedule/tuning.h"
#include "agent/testing/local_agent.h"
#include "session/call_agreement.h"

namespace kedge {
namespace {

using testing::LocalAgent;

constexpr uint64_t kCallsSlotBytes = 64 << 10;
constexpr LevelCounts kConfigured{0, 40};
constexpr LevelCounts kTold{0, 7};
// The first call that can be held.
constexpr uint64_t kCall = kCallJoined + 1;
constexpr CallTicket kTicket = CallTicket{kCall} << kCallTryBits;

JobKeys Keys(bool adapt_levels) {
  JobKeys keys;
  keys.schedule_interval = std::chrono::hours(1);  // nothing is due but what a test says
  keys.schedule_store = kConfigured.store_every;
  keys.schedule_adapt_levels = adapt_levels;
  return keys;
}

// Ranks of a job that may change its counts; they have joined, and asked nothing yet.
class Ranks {
 public:
  Ranks(LocalAgent& agent, std::vector<uint32_t> ranks, uint32_t of) : agent_(agent), of_(of) {
    for (const uint32_t rank : ranks) Join(rank);
  }
  // In a mailbox of its own, new to it.
  void Join(uint32_t rank) {
    ids_.push_back(agent_.Attach(rank, of_, Keys(/*adapt_levels=*/true)).id);
    JoinQuestion(question(ids_.size() - 1), 0, 0);
  }
  // Its process has lost its mailbox, and begins anew with the agent.
  void JoinAgain(size_t index) {
    Session& session = *agent_->core().sessions().Find(ids_[index]);
    const uint32_t rank = session.hello.rank;
    agent_->sessions().End(session, "it begins anew");
    Join(rank);
    std::swap(ids_[index], ids_.back());
    ids_.pop_back();
  }
  // The nodes of the job have told each other who they are: this one has some of the ranks, another one the others.
  void LiveOn(const std::vector<uint32_t>& here, const std::vector<uint32_t>& there) {
    JobNode own, other;
    own.name = agent_->core().settings().node;
    own.ranks = here;
    other.name = "other";
    other.ranks = there;
    job().members = {1, of_, "a secret", {own, other}};
    agent_->sessions().SaveJob(job());
  }
  CallQuestion* question(size_t index) { return &agent_->core().sessions().Find(ids_[index])->box().questions[kCheckpointDue]; }
  Job& job() { return *agent_->core().sessions().Find(ids_[0])->job; }

  // As an agent that is killed when all are held, and the first of them knows the decision.
  void TellTheFirstOnly(const LevelCounts& told) {
    std::vector<CallQuestion*> all;
    for (size_t index = 0; index < ids_.size(); ++index) all.push_back(question(index));
    KEDGE_CHECK(HoldAt(all, kTicket).accepted);
    DecideCall(std::span(all).first(1), kTicket, true, told);
  }

 private:
  LocalAgent& agent_;
  uint32_t of_;
  std::vector<uint32_t> ids_;
};

// What the rank is told at the held call.
LevelCounts ToldAtTheCall(CallQuestion* question) {
  LevelCounts told;
  EXPECT_EQ(BeginCall(question, kCall, &told), CallAnswer::kYes);
  return told;
}

TEST(CallQuestions, ASuccessorTellsEveryRankTheCountsThatOneWasTold) {
  LocalAgent agent(1, kCallsSlotBytes);
  Ranks ranks(agent, {0, 1}, 2);
  ranks.TellTheFirstOnly(kTold);
  agent.Succeed();
  EXPECT_EQ(ToldAtTheCall(ranks.question(0)), kTold);
  EXPECT_EQ(ToldAtTheCall(ranks.question(1)), kTold);
}

TEST(CallQuestions, ASuccessorTellsTheOtherNodesTheCountsThatARankWasTold) {
  LocalAgent agent(1, kCallsSlotBytes);
  Ranks ranks(agent, {0, 1}, 3);
  ranks.LiveOn({0, 1}, {2});
  ranks.TellTheFirstOnly(kTold);
  agent.Succeed();
  const CallRound& round = ranks.job().calls.rounds[kCheckpointDue];
  EXPECT_EQ(round.ticket, kTicket);
  EXPECT_TRUE(round.yes);
  EXPECT_EQ(round.levels, kTold);
  EXPECT_TRUE(round.untold.contains("other"));
}

TEST(CallQuestions, ASuccessorAtANodeWithoutRank0KeepsTheCountsForAMailboxToCome) {
  LocalAgent agent(1, kCallsSlotBytes);
  Ranks ranks(agent, {1, 2}, 3);
  ranks.LiveOn({1, 2}, {0});
  ranks.TellTheFirstOnly(kTold);
  agent.Succeed();
  ranks.JoinAgain(1);
  EXPECT_EQ(ToldAtTheCall(ranks.question(1)), kTold);
}

// The rank that showed what holds is gone, and with it its mailbox, and the other one has not settled it yet: the job's file
// knows.
TEST(CallQuestions, ARankBeginsWithTheCountsThatHeldAlsoWithAnotherAgent) {
  LocalAgent agent(1, kCallsSlotBytes);
  agent.Attach(1, 2, Keys(/*adapt_levels=*/true));
  Session& first = agent.Attach(0, 2, Keys(/*adapt_levels=*/true));
  EXPECT_EQ(UnpackedLevels(first.box().told_levels), kConfigured);
  first.box().levels_in_force = Packed(kTold);
  EXPECT_EQ(agent->tuning().LevelsToTell(*first.job), kTold);
  agent->sessions().End(first, "it begins anew");
  agent.Succeed();
  EXPECT_EQ(UnpackedLevels(agent.Attach(0, 2, Keys(/*adapt_levels=*/true)).box().told_levels), kTold);
}

TEST(CallQuestions, WithoutTheKeyNothingIsSaidOfCounts) {
  LocalAgent agent(1, kCallsSlotBytes);
  Session& session = agent.Attach(0, 1, Keys(/*adapt_levels=*/false));
  session.box().levels_in_force = Packed(kTold);
  agent->tuning().Tick();  // sees what the rank shows
  EXPECT_TRUE(agent->tuning().LevelsToTell(*session.job).none());
  EXPECT_TRUE(UnpackedLevels(session.box().told_levels).none());
  EXPECT_EQ(agent->tuning().LevelsInForce(*session.job), kTold) << "what the ranks show holds all the same";
}

}  // namespace
}  // namespace kedge
