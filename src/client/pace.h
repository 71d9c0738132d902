// What the application asks at every step: whether a checkpoint is due, whether it should exit. All ranks get the same answer at
// the same call number.
//
// Where one agent serves all ranks, or the agents of all nodes know each other, they agree on a call number when rank 0's wants
// a yes (agent/schedule/call_questions.h): a call is two accesses to shared memory, and waits for nobody but a decision under
// way. Elsewhere each call is a broadcast of what rank 0 finds: its clock, and what its agent wants. Which of the two holds is
// settled at init, alike for all ranks. The interval is the agent's when it has one (schedule.adapt), else rank 0's configured
// one.
//
// The counts of levels (session/level_counts.h) begin as rank 0's agent wants them, else as rank 0 has them configured, and
// change only with a "due": the agents' decision carries what holds from that call on, or rank 0's broadcast what its agent has
// told it. So no two ranks take a version by different counts.
//
// A yes stays: "due" until a checkpoint is begun or a restart has ended, "exit" for ever. Ranks make these calls in the same
// order, so that the ones that need no agreement are the same everywhere, and are not counted. Guarded by the context's lock.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/status.h"
#include "client/core.h"
#include "client/session.h"

namespace kedge::client {

class Pace {
 public:
  // Both outlive the pace.
  Pace(Core* core, Session* session);

  // Settles how the ranks agree; the first interval begins. Collective, once, at the end of init.
  Status Start();

  // A checkpoint or a restart has ended just now.
  void BeginInterval();
  // A checkpoint begins; whether it succeeds or not, it has been due no longer.
  void OnCheckpoint() { due_ = false; }
  // Made by all ranks in the same order; `lock`, the context's, is let go while it waits. Fails when the ranks cannot be
  // reached, or the agent does not decide within wait.timeout.
  Result<bool> IsDue(std::unique_lock<std::mutex>& lock);
  Result<bool> ShouldExit(std::unique_lock<std::mutex>& lock);
  // Zero: none.
  Duration interval() const;

 private:
  // What all ranks are told at a call.
  struct Answer {
    bool yes = false;
    LevelCounts levels;  // that hold from then on; none: those that hold already
  };
  Result<Answer> Ask(CallQuestionIndex index, bool mine, std::unique_lock<std::mutex>& lock);
  Result<Answer> AskFirst(CallQuestionIndex index, bool mine, std::unique_lock<std::mutex>& lock);
  Result<Answer> AwaitDecision(CallQuestionIndex index, std::unique_lock<std::mutex>& lock);
  void GoBy(const LevelCounts& told);
  // The halt that wants a yes of this rank; 0: none.
  uint32_t WantedBy(CallQuestionIndex index) const;

  Core* core_;
  Session* session_;
  int64_t began_ns_ = 0;
  bool always_due_ = false;  // rank 0 has no interval
  bool by_calls_ = false;
  uint32_t obeyed_halt_ = 0;  // the newest one that wanted a checkpoint, and was there when one ended
  bool due_ = false;
  bool exit_ = false;
};

}  // namespace kedge::client
