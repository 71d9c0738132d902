// This node's part of the redundancy of a set: room for it, a worker that makes it, and its place among the sets that are held.
//
// It begins when all members are known, and may be repeated: objects that lie here already are kept, also from a former agent.
// Without room it waits until some may have come free. After a failure it is tried again when a pause is over, and a member with
// a block that did not fit is asked to prove its image.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agent/tables/protection.h"
#include "agent/tables/version.h"
#include "agent/tables/workers.h"

namespace kedge {

class AgentCore;
class Assignment;
class HeldSets;
class NodeLevel;
class Peers;
class RedundancyRoom;
class SetProofs;
class SetSource;
struct MakeNotes;

class SetMaker {
 public:
  SetMaker(AgentCore& core, Assignment& assignment, HeldSets& held_sets, NodeLevel& node_level, Peers& peers,
           RedundancyRoom& room, SetProofs& proofs);

  // Takes what is here of its sets, and estimates the room for the rest. REQUIRES: version.protection.
  void OnBegun(Version& version);
  // When all members are known, unless it is made already, or being made. Told when it is done: AgentEvents::set_changed.
  void Make(Version& version, SetProgress& set);
  // Some room may have come free: those that wait for it are tried, the oldest first. Lets go of cached images.
  void OnRoom();
  // Lets workers end; nothing of theirs is taken any more.
  void Stop() { workers_.reset(); }

 private:
  static constexpr uint32_t kThreads = 2;
  static constexpr Duration kReadTimeout = std::chrono::seconds(20);
  static constexpr Duration kRetryPause = std::chrono::milliseconds(500);
  static constexpr Duration kRetryPauseMax = std::chrono::seconds(5);

  // Objects of a set, by the member whose parity (scheme partner: copy) each is.
  struct Objects {
    std::vector<uint32_t> members;
    std::vector<uint64_t> lengths;
  };
  // What this node is to hold of the set and does not.
  static Objects MissingObjects(const Protection& protection, const HeldSet& held);
  static void TakeKept(const Version& version, SetProgress& set);
  static uint64_t EstimateRoom(const Version& version, const SetProgress& set);
  void Begin(Version& version, SetProgress& set);
  // As all members come to the same.
  static SetRecord RecordOf(const redundancy::Layout& layout, SetProgress& set);
  // kIncomplete: this node's own image is gone.
  Result<std::shared_ptr<SetSource>> SourceOf(const Version& version, const SetRecord& record) const;
  void OnMade(const SetIdentity& identity, const std::vector<uint32_t>& members, std::vector<std::vector<OwnRange>> objects,
              Result<std::vector<BlockTable>> tables, const MakeNotes& notes);
  // All of it or, after an error, what comes before; the rest is released.
  Status Keep(HeldSet& held, const std::vector<uint32_t>& members, std::vector<std::vector<OwnRange>> objects,
              std::vector<BlockTable> tables);
  void TryAgain(Version& version, SetProgress& set, const Status& why, const MakeNotes& notes);

  AgentCore& core_;
  Assignment& assignment_;
  HeldSets& held_sets_;
  NodeLevel& node_level_;
  Peers& peers_;
  RedundancyRoom& room_;
  SetProofs& proofs_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace kedge
