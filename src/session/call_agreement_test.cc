// Ranks that call as fast as they can, and agents that propose: every rank has the same answer at the same call, and what
// the leader decided is what they got. First with real threads on real memory, then members whose messages are late, by seed.
#include "session/call_agreement.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/random.h"
#include "os/memory/futex.h"

namespace kedge {
namespace {

using std::chrono::seconds;

// What the tests tell with a yes at that call: other counts at each.
LevelCounts LevelsAt(uint64_t call) {
  return {static_cast<uint32_t>(call), static_cast<uint32_t>(call) + 1};
}

struct Ranks {
  explicit Ranks(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      questions.push_back(std::make_unique<CallQuestion>());
      pointers.push_back(questions.back().get());
    }
  }
  std::vector<std::unique_ptr<CallQuestion>> questions;  // zeros, as in a new mailbox
  std::vector<CallQuestion*> pointers;
};

CallAnswer Ask(CallQuestion* question, uint64_t call, LevelCounts* told) {
  CallAnswer answer = BeginCall(question, call, told);
  while (answer == CallAnswer::kUndecided) {
    question->waiting.store(1);
    const uint32_t seen = question->decided.load();
    answer = AnswerOf(question, call, told);
    if (answer == CallAnswer::kUndecided) (void)os::FutexWait(&question->decided, seen, seconds(10));
    question->waiting.store(0);
  }
  return answer;
}

TEST(CallAgreement, NobodyIsHeldWhereNothingIsProposed) {
  Ranks ranks(1);
  JoinQuestion(ranks.pointers[0], 0, 0);
  for (uint64_t call = 2; call < 100; ++call) EXPECT_EQ(BeginCall(ranks.pointers[0], call), CallAnswer::kNo);
}

TEST(CallAgreement, ARankAtTheHeldCallWaitsAndTheOthersDoNot) {
  Ranks ranks(2);
  for (CallQuestion* question : ranks.pointers) JoinQuestion(question, 0, 0);
  CallLeader leader;
  const CallTicket ticket = leader.Propose(1, LookAtCalls(ranks.pointers).newest_call);
  EXPECT_EQ(CallOf(ticket), 2u);
  const CallVote vote = HoldAt(ranks.pointers, ticket);
  ASSERT_TRUE(vote.accepted);
  EXPECT_EQ(BeginCall(ranks.pointers[0], 2), CallAnswer::kUndecided);
  ASSERT_EQ(leader.OnVote(ticket, vote), true);
  DecideCall(ranks.pointers, ticket, true);
  EXPECT_EQ(AnswerOf(ranks.pointers[0], 2), CallAnswer::kYes);
  // Rank 1 has not been there: its yes must stay, however much the agent wants another one.
  EXPECT_EQ(BeginCall(ranks.pointers[0], 3), CallAnswer::kNo);
  const CallTicket next = leader.Propose(1, LookAtCalls(ranks.pointers).newest_call);
  EXPECT_FALSE(HoldAt(ranks.pointers, next).accepted);
  EXPECT_EQ(leader.GiveUp(), next);
  EXPECT_EQ(BeginCall(ranks.pointers[1], 2), CallAnswer::kYes);
  const CallTicket third = leader.Propose(1, LookAtCalls(ranks.pointers).newest_call);
  EXPECT_GT(third, next);
  EXPECT_TRUE(HoldAt(ranks.pointers, third).accepted);
}

TEST(CallAgreement, ARefusedCallMayBeProposedOnceMore) {
  Ranks ranks(1);
  JoinQuestion(ranks.pointers[0], 0, 0);
  CallLeader leader;
  const CallTicket first = leader.Propose(2, 1);
  ASSERT_TRUE(HoldAt(ranks.pointers, first).accepted);
  EXPECT_EQ(leader.OnVote(first, CallVote{}), false) << "the other member's ranks have not joined";
  DecideCall(ranks.pointers, first, false);
  const CallTicket second = leader.Propose(2, 1);
  EXPECT_EQ(CallOf(second), CallOf(first));
  ASSERT_TRUE(HoldAt(ranks.pointers, second).accepted);
  EXPECT_EQ(BeginCall(ranks.pointers[0], CallOf(second)), CallAnswer::kUndecided) << "the old no is not its answer";
  DecideCall(ranks.pointers, second, true);
  EXPECT_EQ(AnswerOf(ranks.pointers[0], CallOf(second)), CallAnswer::kYes);
}

TEST(CallAgreement, WhoHasNotJoinedOrCountsNonsenseIsNotHeld) {
  Ranks ranks(2);
  JoinQuestion(ranks.pointers[0], 0, 0);
  EXPECT_FALSE(HoldAt(ranks.pointers, uint64_t{2} << kCallTryBits).accepted);
  ranks.pointers[1]->calls = UINT64_MAX;
  EXPECT_EQ(LookAtCalls(ranks.pointers).newest_call, 0u);
  EXPECT_FALSE(HoldAt(ranks.pointers, uint64_t{2} << kCallTryBits).accepted);
}

TEST(CallAgreement, RanksThatRunAtFullSpeedAgree) {
  constexpr size_t kRanks = 3;
  constexpr size_t kDecisions = 200;
  Ranks ranks(kRanks);
  for (CallQuestion* question : ranks.pointers) JoinQuestion(question, 0, 0);
  std::vector<std::map<uint64_t, LevelCounts>> answered(kRanks);
  std::map<uint64_t, LevelCounts> decided;
  std::atomic<uint64_t> last_call{UINT64_MAX};
  std::thread agent([&] {
    CallLeader leader;
    while (decided.size() < kDecisions) {
      const CallTicket ticket = leader.Propose(1, LookAtCalls(ranks.pointers).newest_call);
      const bool yes = leader.OnVote(ticket, HoldAt(ranks.pointers, ticket)).value();
      DecideCall(ranks.pointers, ticket, yes, LevelsAt(CallOf(ticket)));
      if (yes) decided[CallOf(ticket)] = LevelsAt(CallOf(ticket));
      std::this_thread::yield();
    }
    last_call.store(decided.rbegin()->first);
  });
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (uint64_t call = 2; call <= last_call.load(); ++call) {
        LevelCounts told;
        if (Ask(ranks.pointers[rank], call, &told) == CallAnswer::kYes) answered[rank][call] = told;
        // As in a program, no rank runs far ahead of another.
        while (call > ranks.pointers[(rank + 1) % kRanks]->calls.load() + 1000 && call <= last_call.load())
          std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  agent.join();
  for (size_t rank = 0; rank < kRanks; ++rank) EXPECT_EQ(answered[rank], decided) << "rank " << rank;
}

// Several members, one leader; each step one thing happens somewhere: a rank calls, or asks again for the decision it waits
// for, or a message arrives. Messages between two agents keep their order and are arbitrarily late.
class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed) {
    const size_t members = 1 + random_.Below(4);
    for (size_t m = 0; m < members; ++m) {
      members_.push_back(std::make_unique<Member>(1 + random_.Below(3)));
      for (CallQuestion* question : members_[m]->ranks.pointers) JoinQuestion(question, 0, 0);
    }
  }

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) Step();
    // What is under way arrives, and whoever waits is answered.
    for (int turn = 0; turn < 1000; ++turn) {
      for (size_t m = 0; m < members_.size(); ++m) {
        DeliverToMember(m);
        DeliverToLeader(m);
      }
    }
    for (auto& member : members_) {
      for (size_t r = 0; r < member->calls.size(); ++r) AskAgain(*member, r);
    }
  }

  // Every rank that made the call had the answer that the leader gave it.
  void Check() const {
    for (const auto& member : members_) {
      for (size_t r = 0; r < member->calls.size(); ++r) {
        ASSERT_FALSE(member->waiting[r]) << "a rank waits for ever";
        for (uint64_t call = 2; call <= member->calls[r]; ++call) {
          ASSERT_EQ(member->yes[r].contains(call), decided_yes_.contains(call)) << "call " << call;
          if (!decided_yes_.contains(call)) continue;
          ASSERT_EQ(member->yes[r].at(call), LevelsAt(call)) << "call " << call;
        }
      }
    }
  }
  size_t decided() const { return decided_yes_.size(); }

 private:
  struct ToMember {
    CallTicket ticket;
    std::optional<bool> decision;
  };
  struct Member {
    explicit Member(size_t count) : ranks(count), calls(count, kCallJoined), waiting(count, false), yes(count) {}
    Ranks ranks;
    std::vector<uint64_t> calls;
    std::vector<bool> waiting;
    std::vector<std::map<uint64_t, LevelCounts>> yes;  // by call, with what came with it
    std::deque<ToMember> inbox;
    std::deque<std::pair<CallTicket, CallVote>> votes;
  };

  void Step() {
    const size_t m = random_.Below(members_.size());
    Member& member = *members_[m];
    const size_t r = random_.Below(member.calls.size());
    switch (random_.Below(6)) {
      case 0:
      case 1: member.waiting[r] ? AskAgain(member, r) : Begin(member, r); break;
      case 2: DeliverToMember(m); break;
      case 3: DeliverToLeader(m); break;
      case 4: Propose(); break;
      default:
        if (random_.Below(50) == 0) {
          if (const auto ticket = leader_.GiveUp()) Decide(*ticket, false);
        }
    }
  }
  void Begin(Member& member, size_t r) {
    LevelCounts told;
    const CallAnswer answer = BeginCall(member.ranks.pointers[r], ++member.calls[r], &told);
    Note(member, r, answer, told);
  }
  void AskAgain(Member& member, size_t r) {
    if (!member.waiting[r]) return;
    LevelCounts told;
    const CallAnswer answer = AnswerOf(member.ranks.pointers[r], member.calls[r], &told);
    Note(member, r, answer, told);
  }
  void Note(Member& member, size_t r, CallAnswer answer, const LevelCounts& told) {
    member.waiting[r] = answer == CallAnswer::kUndecided;
    if (answer == CallAnswer::kYes) member.yes[r][member.calls[r]] = told;
  }
  void Propose() {
    if (leader_.open()) return;
    const CallTicket ticket =
        leader_.Propose(static_cast<uint32_t>(members_.size()), LookAtCalls(members_[0]->ranks.pointers).newest_call);
    for (auto& member : members_) member->inbox.push_back({ticket, std::nullopt});
  }
  void Decide(CallTicket ticket, bool yes) {
    if (yes) decided_yes_.insert(CallOf(ticket));
    for (auto& member : members_) member->inbox.push_back({ticket, yes});
  }
  void DeliverToMember(size_t m) {
    Member& member = *members_[m];
    if (member.inbox.empty()) return;
    const ToMember message = member.inbox.front();
    member.inbox.pop_front();
    if (message.decision) {
      return DecideCall(member.ranks.pointers, message.ticket, *message.decision, LevelsAt(CallOf(message.ticket)));
    }
    member.votes.emplace_back(message.ticket, HoldAt(member.ranks.pointers, message.ticket));
  }
  void DeliverToLeader(size_t m) {
    auto& votes = members_[m]->votes;
    if (votes.empty()) return;
    const auto [ticket, vote] = votes.front();
    votes.pop_front();
    if (const auto decision = leader_.OnVote(ticket, vote)) Decide(ticket, *decision);
  }

  Random random_;
  CallLeader leader_;
  std::vector<std::unique_ptr<Member>> members_;
  std::set<uint64_t> decided_yes_;
};

TEST(CallAgreement, MembersAgreeHoweverLateTheirMessagesAre) {
  size_t decided = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Simulation simulation(seed);
    simulation.Run(600);
    simulation.Check();
    if (HasFatalFailure()) return;
    decided += simulation.decided();
  }
  EXPECT_GT(decided, 2000u) << "proposals must come through";
}

}  // namespace
}  // namespace kedge
