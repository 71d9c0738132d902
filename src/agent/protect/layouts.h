// Which nodes of a job protect each other: the layout of its present attempt, which every agent computes alike from the members
// (redundancy/layout.h).
#pragma once

#include "agent/peers/peer_messages.h"
#include "agent/tables/job.h"
#include "base/status.h"

namespace kedge {

class AgentCore;
class Peers;

class Layouts {
 public:
  Layouts(AgentCore& core, Peers& peers);

  // The members of the job's attempt are known: joins its network. kFailedPrecondition: they cannot protect each other.
  Status OnMembers(Job& job);

 private:
  // The job goes on in another attempt, which leaves this node out.
  Status OnInvited(const Job& job, const Invitation& invitation);

  AgentCore& core_;
  Peers& peers_;
};

}  // namespace kedge
