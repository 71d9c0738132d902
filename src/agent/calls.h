// What the ranks of a job are told at an agreed call number: that a checkpoint is due, that they should exit.
//
// The agent of rank 0's node leads: it knows when the interval between checkpoints is over and whether the job is to halt, and
// proposes a call number when it wants a yes (session/call_agreement.h). It is its only member as long as all ranks are on its
// node. Where they are not, rank 0 finds in its mailbox what is wanted, and the ranks ask each other (client/pace.h).
// A halt belongs to one attempt. What is held and decided lies in the mailboxes, the halt in the job's file, so that a successor
// goes on with both: a call that its predecessor held and did not decide is a no.
#pragma once

#include <vector>

#include "agent/model.h"
#include "format/wire.h"

namespace kedge {

class Agent;

class Calls {
 public:
  explicit Calls(Agent& agent) : agent_(agent) {}

  // Before the client learns of its mailbox: it finds there what holds.
  void OnAttached(Session& session, bool attached_again);
  // Asks what is to be asked now. Often enough: every housekeeping, and when a rank has ended a checkpoint (LookSoon).
  void LookAtAll();
  void LookSoon();
  // The live jobs that are told to halt, or not any more.
  std::vector<HaltedJob> Halt(const HaltRequest& request);
  // A predecessor's mailboxes are known, the sessions of dead ranks are gone.
  void Recover();

  // Whether the ranks are being told to exit, or have been.
  static bool IsExitTold(const Job& job);
  // For the job's file.
  static void Save(const JobCalls& calls, Encoder& encoder);
  static void Load(Decoder& decoder, JobCalls* calls);

 private:
  void Look(Job& job);
  // Of the newest attempt, in no order; whether they are all ranks of the job.
  std::vector<Session*> RanksOf(const Job& job, bool* are_all) const;
  bool IsCheckpointDue(const Job& job, const Session& first);
  static bool IsExitDue(const Job& job, const Session& first);
  // For a halt that does not wait for the interval.
  static bool IsCheckpointWanted(const Job& job, const Session& first);
  void Propose(Job& job, CallQuestionIndex index, const std::vector<Session*>& ranks);
  void RecoverQuestion(Job& job, CallQuestionIndex index, const std::vector<Session*>& ranks);
  void LookAgainAt(int64_t at_ns);

  Agent& agent_;
  int64_t look_ns_ = 0;  // of the earliest timer that is set; 0: none
};

}  // namespace kedge
