// What the ranks of a job are told at an agreed call number: that a checkpoint is due, that they should exit.
//
// The agent of rank 0's node leads: it knows when the interval between checkpoints is over and whether the job is to halt, and
// proposes a call number when it wants a yes (session/call_agreement.h). Each node of the job is a member, whose agent holds its
// ranks and votes; the decision goes to the leader's own ranks first, then to the other nodes, again and again until each has
// it, and nothing new is proposed before. A node that does not answer in time has refused. Nodes that do not reach each other
// cannot agree so: there rank 0 finds in its mailbox what is wanted, and the ranks ask each other (client/pace.h).
// With a "due" come the counts of levels that the ranks go by from that call on (tuning.h); they are part of the decision.
// A halt belongs to one attempt. What is held and decided lies in the mailboxes, the halt in the job's file, so that a successor
// goes on with both: a call that a leader's predecessor held and did not decide is a no; a member leaves it to its leader.
#pragma once

#include <string>
#include <vector>

#include "agent/peers/peer_messages.h"
#include "agent/tables/model.h"
#include "format/wire.h"

namespace kedge {

class AgentCore;
class Peers;
class Tuning;

class CallQuestions {
 public:
  CallQuestions(AgentCore& core, Peers& peers, Tuning& tuning) : core_(core), peers_(peers), tuning_(tuning) {}

  // Before the client learns of its mailbox: it finds there what holds.
  void OnAttached(Session& session, bool attached_again);
  // Asks what is to be asked now. Often enough: every housekeeping, and when a rank has ended a checkpoint (LookSoon).
  void LookAtAll();
  void LookSoon();
  // The live jobs that are told to halt, or not any more.
  std::vector<HaltedJob> Halt(const HaltRequest& request);
  // From the leader.
  CallVote OnHold(Job& job, const CallHold& call);
  void OnDecision(Job& job, const CallDecision& decision);
  // A predecessor's mailboxes are known, the sessions of dead ranks are gone.
  void Recover();

  // Whether the ranks are being told to exit, or have been.
  static bool IsExitTold(const Job& job);
  // For the job's file.
  static void Save(const JobCalls& calls, Encoder& encoder);
  static void Load(Decoder& decoder, JobCalls* calls);

 private:
  void Look(Job& job);
  // Of the newest attempt, in no order; whether they are all that the node should have.
  std::vector<Session*> RanksOf(const Job& job, bool* are_all) const;
  // The nodes with the other ranks; none when all are here, or nobody knows.
  std::vector<std::string> OtherNodes(const Job& job) const;
  bool IsCheckpointDue(const Job& job, const Session& first);
  static bool IsExitDue(const Job& job, const Session& first);
  // For a halt that does not wait for the interval.
  static bool IsCheckpointWanted(const Job& job, const Session& first);
  void Propose(Job& job, CallQuestionIndex index, const std::vector<Session*>& ranks);
  void AskOthers(Job& job, CallQuestionIndex index, CallTicket ticket, const std::vector<std::string>& nodes);
  void OnVote(Job& job, CallQuestionIndex index, CallTicket ticket, const Result<CallVote>& vote);
  // What comes with a yes that is decided now.
  LevelCounts LevelsWith(Job& job, CallQuestionIndex index) const;
  struct Decision {
    CallTicket ticket = 0;
    bool yes = false;
    LevelCounts levels;
  };
  void Decide(Job& job, CallQuestionIndex index, const Decision& decision, const std::vector<std::string>& nodes);
  void Tell(Job& job, CallQuestionIndex index);
  void RecoverQuestion(Job& job, CallQuestionIndex index, const std::vector<Session*>& ranks);
  void LookAgainAt(int64_t at_ns);

  AgentCore& core_;
  Peers& peers_;
  Tuning& tuning_;
  int64_t look_ns_ = 0;  // of the earliest timer that is set; 0: none
};

}  // namespace kedge
