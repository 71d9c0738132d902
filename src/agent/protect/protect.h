// Protection across nodes: brings versions to level NODE in the background, at low priority and with bounded memory.
//
// The nodes of a job's attempt are laid out in groups (layouts.h: every agent computes the same). The j-th images of a group's
// nodes are a set. For each of its sets a node
//   1. makes the block table of its own image by the checksums of capture (measure_member.h),
//   2. exchanges it with the other members, until it knows the set record, which every member puts on file (set_exchange.h),
//   3. makes its part of the redundancy: pulls the blocks it needs from the others, holds each against its table before it is
//      used, and writes parity (or a copy) into slots of its own (set_maker.h); a member whose block does not fit is asked to
//      prove its image, and a version with an image that has changed since its capture is given up (set_proofs.h),
//   4. tells the others, and waits to hear the same from them (set_exchange.h).
// A group whose sets are all done is done, which all nodes hear (done_groups.h). When all groups are done the version is at level
// NODE (node_level.h). Every step may be repeated: a successor begins where the files say that the former agent was.
//
// A version that takes longer than protect.timeout without progress is given up, with the names of the nodes that are missing.
// tables/protection.h says what counts as progress. An older version of the name that gets on counts as well: it has the workers
// and the room that this one waits for. A slow node makes versions late, and is not taken for a dead one. A try after a failed
// one gets on when it is further than that one was.
#pragma once

#include <optional>
#include <set>

#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class DoneGroups;
class MeasureMember;
class NodeLevel;
class SetExchange;
class SetMaker;

class Protect {
 public:
  Protect(AgentCore& core, DoneGroups& done_groups, MeasureMember& measure_member, NodeLevel& node_level,
          SetExchange& set_exchange, SetMaker& set_maker)
      : core_(core),
        done_groups_(done_groups),
        measure_member_(measure_member),
        node_level_(node_level),
        set_exchange_(set_exchange),
        set_maker_(set_maker) {}

  // Something about the version may let it begin, or go on.
  void Consider(Version& version);
  // A set of the version has changed: what is next for it is done soon, once for all that changes until then.
  void AdvanceSoon(const Version& version);
  void Tick();

 private:
  // A rank of this node whose image is not here; nothing: all are, or the node is in no group.
  std::optional<uint32_t> MissingRank(const Version& version) const;
  Status Begin(Version& version);
  void Advance(Version& version);

  AgentCore& core_;
  DoneGroups& done_groups_;
  MeasureMember& measure_member_;
  NodeLevel& node_level_;
  SetExchange& set_exchange_;
  SetMaker& set_maker_;
  std::set<Generation> posted_;
};

}  // namespace kedge
