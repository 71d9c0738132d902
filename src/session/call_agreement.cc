#include "session/call_agreement.h"

#include <algorithm>

#include "os/memory/futex.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

// More calls than any program makes; what exceeds them was scribbled.
constexpr uint64_t kCallsMax = uint64_t{1} << 42;
constexpr uint64_t kAheadMax = uint64_t{1} << 24;

constexpr uint64_t Encoded(CallTicket ticket, bool yes) {
  return ticket * 2 + (yes ? 1 : 0);
}

// Whether the newest yes has reached every rank.
bool AllAnswered(std::span<CallQuestion* const> ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [](const CallQuestion* question) {
    const uint64_t decision = question->decision.load(std::memory_order_relaxed);
    return decision % 2 == 0 || question->answered.load(std::memory_order_acquire) >= CallOf(decision / 2);
  });
}

}  // namespace

void JoinQuestion(CallQuestion* question, uint64_t newest_call, uint64_t answered_call) {
  question->answered.store(answered_call, std::memory_order_relaxed);
  question->calls.store(std::max(newest_call, kCallJoined), std::memory_order_seq_cst);
}

CallAnswer BeginCall(CallQuestion* question, uint64_t call, LevelCounts* told) {
  question->calls.store(call, std::memory_order_seq_cst);
  return AnswerOf(question, call, told);
}

CallAnswer AnswerOf(CallQuestion* question, uint64_t call, LevelCounts* told) {
  CallAnswer answer = CallAnswer::kNo;
  const CallTicket held = question->held.load(std::memory_order_seq_cst);
  if (CallOf(held) == call) {
    const uint64_t decision = question->decision.load(std::memory_order_seq_cst);
    if (decision / 2 < held) return CallAnswer::kUndecided;
    // A later decision: this one was a no, or it would still stand here.
    answer = decision == Encoded(held, true) ? CallAnswer::kYes : CallAnswer::kNo;
  }
  if (answer == CallAnswer::kYes && told != nullptr) {
    *told = UnpackedLevels(question->levels.load(std::memory_order_relaxed));
  }
  question->answered.store(call, std::memory_order_release);
  return answer;
}

CallVote LookAtCalls(std::span<CallQuestion* const> ranks) {
  CallVote vote;
  for (const CallQuestion* question : ranks) {
    const uint64_t calls = question->calls.load(std::memory_order_seq_cst);
    if (calls < kCallJoined || calls > kCallsMax) return CallVote{};
    vote.newest_call = std::max(vote.newest_call, calls);
  }
  return vote;
}

CallVote HoldAt(std::span<CallQuestion* const> ranks, CallTicket ticket) {
  CallVote vote = LookAtCalls(ranks);
  if (vote.newest_call == 0 || vote.newest_call >= CallOf(ticket) || !AllAnswered(ranks)) return vote;
  for (CallQuestion* question : ranks) question->held.store(ticket, std::memory_order_seq_cst);
  vote = LookAtCalls(ranks);
  vote.accepted = vote.newest_call != 0 && vote.newest_call < CallOf(ticket);
  return vote;
}

void DecideCall(std::span<CallQuestion* const> ranks, CallTicket ticket, bool yes, const LevelCounts& told) {
  for (CallQuestion* question : ranks) {
    // What was never held here needs no decision, and must not displace a yes that is still to be read.
    if (question->held.load(std::memory_order_relaxed) != ticket) continue;
    const uint64_t before = question->levels.load(std::memory_order_relaxed);
    if (yes) question->levels.store(Packed(told), std::memory_order_relaxed);
    question->decision.store(Encoded(ticket, yes), std::memory_order_seq_cst);
    question->decided.fetch_add(1, std::memory_order_seq_cst);
    if (question->waiting.load(std::memory_order_seq_cst) != 0) os::FutexWakeAll(&question->decided);
    os::KillPoint("agent-call-decided");
    if (yes && before != 0 && before != Packed(told)) os::KillPoint("agent-levels-changed");
  }
}

CallTicket CallLeader::Propose(uint32_t members, uint64_t newest_call) {
  newest_call_ = std::max(newest_call_, newest_call);
  const uint64_t call = newest_call_ + ahead_;
  ticket_ = std::max(ticket_ + 1, call << kCallTryBits);
  members_missing_ = members;
  return ticket_;
}

std::optional<bool> CallLeader::OnVote(CallTicket ticket, const CallVote& vote) {
  if (!open() || ticket != ticket_) return std::nullopt;
  newest_call_ = std::max(newest_call_, vote.newest_call);
  if (!vote.accepted) {
    if (vote.newest_call >= CallOf(ticket)) ahead_ = std::min(ahead_ * 2, kAheadMax);
    members_missing_ = 0;
    return false;
  }
  if (--members_missing_ > 0) return std::nullopt;
  newest_call_ = std::max(newest_call_, CallOf(ticket));
  ahead_ = std::max<uint64_t>(ahead_ / 2, 1);
  return true;
}

std::optional<CallTicket> CallLeader::GiveUp() {
  if (!open()) return std::nullopt;
  members_missing_ = 0;
  return ticket_;
}

void CallLeader::ContinueAfter(CallTicket ticket) {
  ticket_ = std::max(ticket_, ticket);
  newest_call_ = std::max(newest_call_, CallOf(ticket));
}

}  // namespace kedge
