// Attempts that somebody wants to end: `kedge halt`.
//
// What is asked lies in the job's file, for a successor, and in the mailboxes of the job's ranks, where rank 0 finds it; it tells
// the others what follows (client/checkpoint/pace.h). A halt belongs to one attempt. Ranks that have been told to exit show that,
// and it is remembered when they are gone.
#pragma once

#include <vector>

#include "agent/tables/job.h"
#include "agent/tables/session.h"
#include "format/wire.h"

namespace kedge {

class AgentCore;

class Halts {
 public:
  explicit Halts(AgentCore& core);

  // Before the client learns of its mailbox: it finds there what holds.
  static void OnAttached(Session& session);
  static void OnEnd(Session& session);
  // The live jobs that are told to halt, or not any more.
  std::vector<HaltedJob> Halt(const HaltRequest& request);
  // Whether the ranks have been told to exit.
  bool IsExitTold(const Job& job) const;

  // For the job's file.
  static void Save(const kedge::Halt& halt, Encoder& encoder);
  static void Load(Decoder& decoder, kedge::Halt* halt);

 private:
  AgentCore& core_;
};

}  // namespace kedge
