// What the application asks at every step: whether a checkpoint is due, whether it should exit. All ranks get the same answer at
// the same call.
//
// Rank 0 tells the others, in a broadcast that also says after how many more calls they hear of it again
// (schedule/call_spacing.h): all ranks go by the same number, because it comes from the same broadcast. Between two of them a
// call looks at nothing but what the last one brought. Both questions are counted and answered together. Rank 0 goes by its
// clock, and by what its agent has written into its mailbox: the interval where schedule.adapt lets the agent choose it, a halt
// (session/halt.h), and the counts of levels.
//
// The counts (session/level_counts.h) begin as rank 0's agent wants them, else as rank 0 has them configured, and change only
// with a "due", whose broadcast carries them. So no two ranks take a version by different counts.
//
// A yes stays: "due" until a checkpoint is begun or a restart has ended, "exit" for ever. A call is counted whatever is known
// already, so that ranks stay in step also when one of them has failed to begin its checkpoint; not counted are those whose
// answer is settled for ever, which is settled for all ranks. A rank whose broadcast has failed does not know when it would hear
// again, and waits for nobody any more: each later call fails the same way. Guarded by the context's lock.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/status.h"
#include "client/core/core.h"
#include "client/session/agent_session.h"
#include "schedule/call_spacing.h"

namespace kedge::client {

class Pace {
 public:
  // Both outlive the pace.
  Pace(Core* core, AgentSession* session) : core_(core), session_(session) {}

  // The ranks hear what they begin with; the first interval begins. Collective, once, at the end of init.
  Status Start();

  void OnRestart() { BeginInterval(); }
  // Whether the checkpoint succeeds or not, it has been due no longer.
  void OnCheckpointBegin() { due_ = false; }
  void OnCheckpointEnd();
  // Collective; `lock`, the context's, is let go while it waits. Fails when the ranks cannot be reached, and from then on.
  Result<bool> IsDue(std::unique_lock<std::mutex>& lock);
  Result<bool> ShouldExit(std::unique_lock<std::mutex>& lock);
  // Zero: none.
  Duration interval() const;

 private:
  // What all ranks hear of rank 0.
  struct Told {
    bool due = false;
    bool exit = false;
    uint64_t ahead = 0;  // calls until they hear of it again; 1: at the next
    LevelCounts levels;  // with a "due": those that hold from then on; none: those that hold already

    Collective::Words Words() const { return {(due ? 1u : 0u) | (exit ? 2u : 0u), ahead, Packed(levels)}; }
    static Told Of(const Collective::Words& words) {
      return {(words[0] & 1) != 0, (words[0] & 2) != 0, words[1], UnpackedLevels(words[2])};
    }
  };
  // Counts a call, and hears of rank 0 when it is one of those where that is heard.
  Status Ask(std::unique_lock<std::mutex>& lock);
  // Rank 0's word.
  Told Decide();
  Status Hear(const Told& told);
  void BeginInterval();
  void GoBy(const LevelCounts& told);
  Result<Duration> BroadcastCost() const;

  Core* core_;
  AgentSession* session_;
  CallSpacing spacing_{Duration::zero()};
  uint64_t ahead_ = 1;               // calls until the next broadcast
  Status broken_;                    // why the ranks cannot be reached any more
  int64_t began_ns_ = 0;             // of the present interval
  int64_t checkpoint_ended_ns_ = 0;  // of the newest one; 0: none yet
  bool always_due_ = false;          // rank 0 has no interval
  int always_due_calls_ = 0;         // until it is told of
  bool due_ = false;
  bool exit_ = false;
};

}  // namespace kedge::client
