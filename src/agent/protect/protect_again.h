// A version that an attempt goes on from after a restart is protected again, among the nodes that there are now: its level NODE
// from an earlier attempt counts for nothing new. Redundancy of it that lies where it should is kept.
//
// Each rank's image comes to its node first; the version goes on when all that the node is to have are here. A version that fails
// is not tried a second time in the attempt, though all that this node had of it has gone since.
#pragma once

#include <cstdint>
#include <map>

#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class NodeLevel;
class Protect;

class ProtectAgain {
 public:
  ProtectAgain(AgentCore& core, NodeLevel& node_level, Protect& protect)
      : core_(core), node_level_(node_level), protect_(protect) {}

  // An attempt goes on from this generation, of which a rank of this node has restarted: it is protected anew. An image that
  // came from the store is brought to this node first. One that another number of ranks has taken is not: it has what it had, and
  // the next checkpoint is protected.
  void OnRestored(Job& job, const Generation& generation, uint32_t rank);
  void OnFailed(const Version& version, Level level);
  // Gives up what has waited too long for images that come here again.
  void Tick();

 private:
  // A version that the present attempt has restarted from.
  struct Restored {
    uint32_t attempt = 0;
    int64_t since_ns = 0;
    Status failure;  // as other nodes are told
  };
  Restored& RestoredOf(const Job& job, const Generation& generation);
  bool IsOfOtherRanks(const Job& job, const Generation& generation) const;
  void OnBrought(const Generation& generation, uint32_t rank, const Status& brought);
  void Begin(Version& version);

  AgentCore& core_;
  NodeLevel& node_level_;
  Protect& protect_;
  std::map<Generation, Restored> restored_;  // by the jobs' present attempts
};

}  // namespace kedge
