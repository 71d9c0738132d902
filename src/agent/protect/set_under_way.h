// A set of a version that is on its way to level NODE here: what answers of workers and other nodes are for.
#pragma once

#include "agent/tables/agent_core.h"
#include "agent/tables/protection.h"

namespace kedge {

struct SetUnderWay {
  Version* version = nullptr;  // null: it is not here
  SetProgress* set = nullptr;  // null: the version is not on its way, or among other nodes

  static SetUnderWay Find(AgentCore& core, const SetIdentity& identity) {
    SetUnderWay found{core.FindVersion(identity.generation)};
    if (found.version == nullptr || found.version->protection == nullptr) return found;
    for (SetProgress& set : found.version->protection->sets) {
      if (set.identity == identity) found.set = &set;
    }
    return found;
  }
  explicit operator bool() const { return set != nullptr; }
};

}  // namespace kedge
