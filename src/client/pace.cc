// See pace.h.
#include "client/pace.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/clock.h"
#include "os/futex.h"
#include "schedule/schedule.h"

namespace kedge::client {
namespace {

// A lost wake-up, or an agent that dies while we wait, costs this much and no more.
constexpr Duration kWaitSlice = std::chrono::milliseconds(50);

// What ranks tell each other at init.
constexpr char kMayGoByCalls = 1;
constexpr char kIsAlwaysDue = 2;

}  // namespace

Pace::Pace(Core* core, Session* session) : core_(core), session_(session) {
  BeginInterval();
}

Status Pace::Start() {
  const bool agents_agree = core_->ranks_on_node == core_->ranks() || core_->nodes_joined;
  std::string mine(1, '\0');
  if (session_->attached() && agents_agree) mine[0] |= kMayGoByCalls;
  if (interval() == Duration::zero()) mine[0] |= kIsAlwaysDue;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> all, core_->collective.AllGather(mine));
  by_calls_ = true;
  for (const std::string& rank : all) by_calls_ = by_calls_ && rank.size() == 1 && (rank[0] & kMayGoByCalls) != 0;
  always_due_ = all[0].size() == 1 && (all[0][0] & kIsAlwaysDue) != 0;
  if (by_calls_) session_->JoinQuestions();
  // What init took is no computation.
  BeginInterval();
  return Status::Ok();
}

void Pace::BeginInterval() {
  due_ = false;
  obeyed_halt_ = WantedBy(kCheckpointDue);
  began_ns_ = SystemClock().NowNs();
  session_->ShowInterval(began_ns_);
}

Duration Pace::interval() const {
  return CheckpointInterval(core_->job.keys, session_->told_interval());
}

uint32_t Pace::WantedBy(CallQuestionIndex index) const {
  const CallQuestion* question = session_->question(index);
  return question == nullptr ? 0 : question->wanted.load(std::memory_order_relaxed);
}

Result<bool> Pace::Ask(CallQuestionIndex index, bool mine, std::unique_lock<std::mutex>& lock) {
  if (!by_calls_) {
    const uint32_t halt = WantedBy(index);
    // The agent may not have seen yet that the checkpoint has been taken.
    const bool wanted = mine || (halt != 0 && (index != kCheckpointDue || halt != obeyed_halt_));
    // Rank 0 may be late; what others want of this rank meanwhile is answered.
    lock.unlock();
    const Result<bool> answer = core_->collective.BroadcastFromFirst(wanted);
    lock.lock();
    return answer;
  }
  const CallAnswer answer = session_->BeginCall(index);
  if (answer != CallAnswer::kUndecided) return answer == CallAnswer::kYes;
  return AwaitDecision(index, lock);
}

Result<bool> Pace::AwaitDecision(CallQuestionIndex index, std::unique_lock<std::mutex>& lock) {
  const Deadline deadline(SystemClock(), core_->job.wait_timeout);
  for (;;) {
    // The mailbox is another one after an agent that lost it; this one stays mapped as long as it is looked at.
    const std::shared_ptr<AttachedSession> session = session_->current();
    CallQuestion* question = session_->question(index);
    question->waiting.store(1, std::memory_order_seq_cst);
    const uint32_t seen = question->decided.load(std::memory_order_seq_cst);
    const CallAnswer answer = session_->AnswerCall(index);
    const bool late = deadline.Passed();
    if (answer != CallAnswer::kUndecided || late) question->waiting.store(0, std::memory_order_relaxed);
    if (answer != CallAnswer::kUndecided) return answer == CallAnswer::kYes;
    if (late) {
      return Status(Code::kTimeout, fmt::format("rank {}: the agent of node {} has held this call and not decided it",
                                                core_->rank(), core_->node.node));
    }
    lock.unlock();
    (void)os::FutexWait(&question->decided, seen, kWaitSlice);
    lock.lock();
    session_->Pump();
  }
}

Result<bool> Pace::IsDue(std::unique_lock<std::mutex>& lock) {
  if (always_due_ || due_) return true;
  const bool mine = by_calls_ || SystemClock().NowNs() - began_ns_ >= interval().count();
  KEDGE_ASSIGN_OR_RETURN(due_, Ask(kCheckpointDue, mine, lock));
  if (!due_) ++core_->statistics.checkpoints_not_due;
  return due_;
}

Result<bool> Pace::ShouldExit(std::unique_lock<std::mutex>& lock) {
  if (!exit_) {
    KEDGE_ASSIGN_OR_RETURN(exit_, Ask(kShouldExit, false, lock));
  }
  return exit_;
}

}  // namespace kedge::client
