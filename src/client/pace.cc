// See pace.h.
#include "client/pace.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "base/clock.h"
#include "format/wire.h"
#include "os/memory/futex.h"
#include "schedule/schedule.h"

namespace kedge::client {
namespace {

// A lost wake-up, or an agent that dies while we wait, costs this much and no more.
constexpr Duration kWaitSlice = std::chrono::milliseconds(50);

// What ranks tell each other at init.
struct Introduction {
  bool may_go_by_calls = false;
  bool is_always_due = false;
  LevelCounts levels;

  std::string Encode() const {
    Buffer buffer;
    Encoder encoder(buffer);
    encoder.U8(may_go_by_calls ? 1 : 0);
    encoder.U8(is_always_due ? 1 : 0);
    encoder.U64(Packed(levels));
    encoder.Finish();
    return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
  }
  static Result<Introduction> Decode(const std::string& text) {
    Decoder decoder(AsBytes(text));
    Introduction told;
    told.may_go_by_calls = decoder.U8() != 0;
    told.is_always_due = decoder.U8() != 0;
    told.levels = UnpackedLevels(decoder.U64());
    KEDGE_RETURN_IF_ERROR(decoder.Finish("how a rank asks"));
    return told;
  }
};

}  // namespace

Pace::Pace(Core* core, Session* session) : core_(core), session_(session) {
  BeginInterval();
}

Status Pace::Start() {
  const bool agents_agree = core_->ranks_on_node == core_->ranks() || core_->nodes_joined;
  core_->levels = ConfiguredLevels(core_->job.keys);
  const Introduction mine{session_->attached() && agents_agree, interval() == Duration::zero(),
                          ChangedLevels(core_->levels, session_->told_levels())};
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> all, core_->collective.AllGather(mine.Encode()));
  by_calls_ = true;
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    KEDGE_ASSIGN_OR_RETURN(const Introduction told, Introduction::Decode(all[rank]));
    by_calls_ = by_calls_ && told.may_go_by_calls;
    if (rank != 0) continue;
    always_due_ = told.is_always_due;
    GoBy(told.levels);
  }
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

void Pace::GoBy(const LevelCounts& told) {
  core_->levels = ChangedLevels(core_->levels, told);
  session_->ShowLevels();
}

Result<Pace::Answer> Pace::Ask(CallQuestionIndex index, bool mine, std::unique_lock<std::mutex>& lock) {
  if (!by_calls_) return AskFirst(index, mine, lock);
  LevelCounts levels;
  const CallAnswer answer = session_->BeginCall(index, &levels);
  if (answer != CallAnswer::kUndecided) return Answer{answer == CallAnswer::kYes, levels};
  return AwaitDecision(index, lock);
}

Result<Pace::Answer> Pace::AskFirst(CallQuestionIndex index, bool mine, std::unique_lock<std::mutex>& lock) {
  const uint32_t halt = WantedBy(index);
  // The agent may not have seen yet that the checkpoint has been taken.
  const bool wanted = mine || (halt != 0 && (index != kCheckpointDue || halt != obeyed_halt_));
  const LevelCounts levels = session_->told_levels();
  // Rank 0 may be late; what others want of this rank meanwhile is answered.
  lock.unlock();
  const auto answer = core_->collective.BroadcastFromFirst(std::array<uint64_t, 2>{wanted ? 1u : 0u, Packed(levels)});
  lock.lock();
  KEDGE_RETURN_IF_ERROR(answer.status());
  return Answer{(*answer)[0] != 0, UnpackedLevels((*answer)[1])};
}

Result<Pace::Answer> Pace::AwaitDecision(CallQuestionIndex index, std::unique_lock<std::mutex>& lock) {
  const Deadline deadline(SystemClock(), core_->job.wait_timeout);
  for (;;) {
    // The mailbox is another one after an agent that lost it; this one stays mapped as long as it is looked at.
    const std::shared_ptr<AttachedSession> session = session_->current();
    CallQuestion* question = session_->question(index);
    question->waiting.store(1, std::memory_order_seq_cst);
    const uint32_t seen = question->decided.load(std::memory_order_seq_cst);
    LevelCounts levels;
    const CallAnswer answer = session_->AnswerCall(index, &levels);
    const bool late = deadline.Passed();
    if (answer != CallAnswer::kUndecided || late) question->waiting.store(0, std::memory_order_relaxed);
    if (answer != CallAnswer::kUndecided) return Answer{answer == CallAnswer::kYes, levels};
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
  KEDGE_ASSIGN_OR_RETURN(const Answer answer, Ask(kCheckpointDue, mine, lock));
  due_ = answer.yes;
  if (due_) GoBy(answer.levels);
  if (!due_) ++core_->statistics.checkpoints_not_due;
  return due_;
}

Result<bool> Pace::ShouldExit(std::unique_lock<std::mutex>& lock) {
  if (!exit_) {
    KEDGE_ASSIGN_OR_RETURN(const Answer answer, Ask(kShouldExit, false, lock));
    exit_ = answer.yes;
  }
  return exit_;
}

}  // namespace kedge::client
