// How all ranks of a job answer a question alike at the same call number, with nobody asking anybody at each call.
//
// Every rank counts its calls in its mailbox. An agent that wants the answer "yes" proposes a call number ahead of all ranks.
// Each member (the agent of one node) holds its ranks there and accepts only if none of them has begun that call; the leader
// then decides, yes if all accepted, and the members tell their ranks. A rank at another call answers "no" at once; a rank at
// the held call waits, and only if it arrives before the decision. One agent alone is a leader with one member.
//
// Why it holds: a rank writes its call number before it looks for a hold, a member writes the hold before it looks at call
// numbers (both sequentially consistent). Whichever comes second sees the other: either the rank waits, or the member refuses.
// A yes is not overwritten before all ranks of the node have answered that call, so a newer decision means that this was a no.
// Counts of levels may come with a yes: they are written before it and read before the call counts as answered, so every rank
// gets those of its yes.
// A proposal has a ticket, its call number and which try at it this is; tickets only grow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "session/level_counts.h"
#include "session/mailbox.h"

namespace kedge {

// ---- A rank ----

enum class CallAnswer { kNo, kYes, kUndecided };

// Calls are numbered from 2: 1 stands for a rank that has joined and asked nothing yet.
inline constexpr uint64_t kCallJoined = 1;

// The rank's counters as they are go into a mailbox that is new to it. Until then the agent proposes nothing.
void JoinQuestion(CallQuestion* question, uint64_t newest_call, uint64_t answered_call);
// Begins call number `call`, one more than the last. kUndecided: ask AnswerOf again when `decided` has moved.
CallAnswer BeginCall(CallQuestion* question, uint64_t call, LevelCounts* told = nullptr);
// The answer of a call that has begun; what was answered is counted. `told`: with a yes, what came with it.
CallAnswer AnswerOf(CallQuestion* question, uint64_t call, LevelCounts* told = nullptr);

// ---- A member: the ranks of one node. `ranks` are all of them; none may be missing ----

using CallTicket = uint64_t;
inline constexpr uint32_t kCallTryBits = 20;
constexpr uint64_t CallOf(CallTicket ticket) {
  return ticket >> kCallTryBits;
}

struct CallVote {
  bool accepted = false;
  uint64_t newest_call = 0;  // that any of them has begun; 0: somebody has not joined, or counts nonsense
};

CallVote HoldAt(std::span<CallQuestion* const> ranks, CallTicket ticket);
// Wakes who waits for it. `told` goes with a yes.
void DecideCall(std::span<CallQuestion* const> ranks, CallTicket ticket, bool yes, const LevelCounts& told = {});
CallVote LookAtCalls(std::span<CallQuestion* const> ranks);

// ---- The leader ----

class CallLeader {
 public:
  // What to send to all members. `newest_call`: that any rank of the leader's node has begun. REQUIRES: none is open.
  CallTicket Propose(uint32_t members, uint64_t newest_call);
  bool open() const { return members_missing_ > 0; }
  // The decision as soon as it stands: no at the first refusal, yes with the last acceptance. Votes on others count nothing.
  std::optional<bool> OnVote(CallTicket ticket, const CallVote& vote);
  // A member does not answer: the decision on the open ticket is no; nothing when none is open.
  std::optional<CallTicket> GiveUp();
  // Of the newest proposal; 0: none yet.
  CallTicket ticket() const { return ticket_; }
  // A successor goes on behind what its predecessor proposed.
  void ContinueAfter(CallTicket ticket);

 private:
  CallTicket ticket_ = 0;
  uint32_t members_missing_ = 0;
  uint64_t newest_call_ = 0;
  uint64_t ahead_ = 1;  // doubles with each refusal: ranks that call fast are far on when the proposal arrives
};

}  // namespace kedge
