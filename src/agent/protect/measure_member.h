// This node's member of a set: the block table of its image, made once by the checksums of capture (set_member.h).
//
// A worker makes the tables, one after the other. A worker that reads a block finds whether it still fits.
#pragma once

#include <memory>

#include "agent/tables/protection.h"
#include "agent/tables/version.h"
#include "agent/tables/workers.h"

namespace kedge {

class AgentCore;
class NodeLevel;

class MeasureMember {
 public:
  MeasureMember(AgentCore& core, NodeLevel& node_level)
      : core_(core), node_level_(node_level), workers_(std::make_unique<Workers>(kThreads)) {}

  // Once it is known (AgentEvents::set_changed) it is among the set's members: at once where the node has no image in the set.
  void Measure(Version& version, SetProgress& set);
  // Lets workers end; nothing of theirs is taken any more.
  void Stop() { workers_.reset(); }

 private:
  static constexpr uint32_t kThreads = 1;

  void OnMeasured(const SetIdentity& identity, uint64_t image_id, Result<SetMember> made);

  AgentCore& core_;
  NodeLevel& node_level_;
  std::unique_ptr<Workers> workers_;  // apart from those that make redundancy: tables do not wait for what slow nodes bring
};

}  // namespace kedge
