// Level NODE of a version: reached, given up, or had and no longer safe; what is told then, and what is remembered of it.
//
// A version is given up with the name of the node that gave up, and the reason. Other nodes, and ranks, that ask later are told
// also when the version has gone from here.
#pragma once

#include <cstdint>

#include "agent/protect/protect_outcomes.h"
#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class HeldSets;
class ImageTable;
class LocalRetention;

class NodeLevel {
 public:
  NodeLevel(AgentCore& core, HeldSets& held_sets, ImageTable& images, LocalRetention& retention)
      : core_(core), held_sets_(held_sets), images_(images), retention_(retention) {}

  // All groups of the version are done. REQUIRES: version.protection.
  void Reach(Version& version);
  // It does not get there. Lets go of versions: not while somebody walks over them.
  void Fail(Version& version, const Status& why);
  // The same a moment later, if the version is still on its way then.
  void FailSoon(const Generation& generation, const Status& why);
  // A node has answered so: kIncomplete, it does not take part.
  void OnRefusal(const Version& version, const Status& why);
  // A node has lost its part of a version that is at level NODE: it can be restored, and is not safe from the next loss.
  void Weaken(Version& version, const Status& why);
  // A worker has read an image of this node for one of the sets, and failed.
  void NoteIfDamaged(uint64_t image_id, const Status& read);
  // The job's application has ended, and what survives goes to the store: what has not reached level NODE by now is not waited
  // for any longer, for the nodes that it needs may be dead. Nothing happens while its attempt has a session here.
  // Lets go of versions: not while somebody walks over them.
  void OnDrained(const Job& job);

  // Looks before this node says that it holds what it is to hold. True: it is given up soon (DoneGroups::OnTierLost).
  bool HasJustLost(const Version& version);
  // What became of the version among the nodes of that layout: Ok, or kIncomplete with the node and the reason. Null: nothing is
  // known. Valid until the next version ends.
  const Status* OutcomeOf(const Generation& generation, uint64_t layout) const { return outcomes_.Find(generation, layout); }
  // Whether a newer version of the name was at level NODE, as far as is remembered.
  bool IsOutlived(const Version& version, const Lineage& lineage) const {
    return outcomes_.IsOutlived(version.generation, lineage);
  }
  // Why a version that this node has let go of is not at level NODE; Ok: nothing is known of that.
  Status FormerFailure(const Generation& generation) const;
  // `why`, as it is said of the version.
  static Status NotReached(const Generation& generation, const Status& why);

 private:
  // A node that is behind may yet take part, though its answer is no.
  static constexpr Duration kRefusalPause = std::chrono::seconds(2);

  AgentCore& core_;
  HeldSets& held_sets_;
  ImageTable& images_;
  LocalRetention& retention_;
  ProtectOutcomes outcomes_;
};

}  // namespace kedge
