// Protection across nodes: brings versions to level NODE in the background, at low priority and with bounded memory.
//
// The nodes of a job's attempt are laid out in groups (redundancy/layout.h: every agent computes the same). The j-th images of
// a group's nodes are a set. For each of its sets a node
//   1. makes the block table of its own image by the checksums of capture,
//   2. exchanges it with the other members, until it knows the set record, which every member puts on file,
//   3. makes its part of the redundancy: pulls the blocks it needs from the others, holds each against its table before it is
//      used, and writes parity (or a copy) into slots of its own; whose block does not fit is asked to prove its image, and a
//      version with an image that has changed since its capture is given up,
//   4. tells the others, and waits to hear the same from them.
// A group whose sets are all done is done, which all nodes hear (protect_groups.cc). When all groups are done the version is at
// level NODE. Every step may be repeated: a successor begins where the files say that the former agent was. What takes longer
// than protect.timeout without progress is given up with the names of the nodes that are missing. Bytes that come are progress,
// here or at a member that is waited for, and so is an older version that gets on: a slow node makes versions late, and is not
// taken for a dead one. What failed and begins anew gets on when it is further than before. A node that has given a version up,
// or has no image of it and never will, says so when it is asked: then nobody waits for it.
//
// Level NODE of a version from an earlier attempt counts for nothing new: after a restart the restored version is protected again
// among the nodes that there are now; what of it lies where it should is kept.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/peers/peer_messages.h"
#include "agent/protect/protect_outcomes.h"
#include "agent/space/redundancy_room.h"
#include "agent/tables/job.h"
#include "agent/tables/protection.h"
#include "agent/tables/workers.h"

namespace kedge {

class AgentCore;
class Assignment;
class HeldSets;
class ImageTable;
class LocalRetention;
class OwnSlots;
class Peers;
class Tiers;
struct MakeNotes;

class Protect {
 public:
  Protect(AgentCore& core, Assignment& assignment, HeldSets& held_sets, ImageTable& images, OwnSlots& own_slots, Peers& peers,
          LocalRetention& retention, RedundancyRoom& room, Tiers& tiers);
  ~Protect();

  // The members of the job's attempt are known: joins its network. kFailedPrecondition: they cannot protect each other.
  Status OnMembers(Job& job);
  // Something about the version may let it go on.
  void Consider(Version& version);
  // An attempt goes on from this generation, of which a rank of this node has restarted: it is protected anew. An image that
  // came from the store is brought to this node first. One that another number of ranks has taken is not: it has what it had, and
  // the next checkpoint is protected.
  void OnRestored(Job& job, const Generation& generation, uint32_t rank);
  void OnVersionGone(const Version& version);
  // What lay in lost tiers is not counted on any more, here or by other nodes: versions on their way with it are given up, and
  // those that are at level NODE count as such again only after a restart from them.
  void OnTierLost();
  // The job's application has ended, and what survives goes to the store: what has not reached level NODE by now is not waited
  // for any longer, for the nodes that it needs may be dead. Nothing happens while its attempt has a session here.
  // Lets go of versions: not while somebody walks over them.
  void OnDrained(const Job& job);
  // Whether a newer version of the name was at level NODE, as far as is remembered.
  bool IsOutlived(const Version& version, const Lineage& lineage) const {
    return outcomes_.IsOutlived(version.generation, lineage);
  }
  // Why a version that this node has let go of is not at level NODE; Ok: nothing is known of that.
  Status FormerFailure(const Generation& generation) const;
  void Tick();
  // Some room may have come free: those that wait for it are tried, the oldest first. Lets go of cached images.
  void OnRoom();
  // kTimeout, naming the nodes (or groups) that the version waits for. REQUIRES: version.protection.
  Status Missing(const Version& version) const;

  // ---- From other nodes ----
  Result<ExchangeReply> OnExchange(Job& job, const ExchangeRequest& request);
  // A member doubts the image of ours in the set. May answer later.
  void OnProve(const SetRequest& request, net::Answer answer);
  Result<GroupsReply> OnGroups(Job& job, const GroupsNotice& notice);

  // As in status: which nodes protect each other; empty without protection.
  std::string DescribeGroups(const Job& job) const;
  // Lets workers end; nothing of theirs is taken any more.
  void Stop();

 private:
  static constexpr Duration kCallTimeout = std::chrono::seconds(10);
  static constexpr Duration kRetryPause = std::chrono::milliseconds(500);
  // A node that is behind may yet take part, though its answer is no.
  static constexpr Duration kRefusalPause = std::chrono::seconds(2);

  struct Early {
    SetIdentity set;
    uint32_t from = 0;
    bool done = false;
    SetMember member;
  };
  // A version that the present attempt has restarted from.
  struct Again {
    uint32_t attempt = 0;
    int64_t since_ns = 0;
    Status failure;  // it is not tried a second time, though all that this node had of the version has gone since
  };
  Again& AgainOf(const Job& job, const Generation& generation);
  bool IsOfOtherRanks(const Job& job, const Generation& generation) const;
  void ProtectAgain(Version& version);
  // A rank of this node whose image is not here; nothing: all are, or the node is in no group.
  std::optional<uint32_t> MissingRank(const Version& version) const;
  Status Begin(Version& version);
  void Advance(Version& version);
  void AdvanceSoon(const Generation& generation);
  void Measure(Version& version, SetProgress& set);
  void Exchange(Version& version, SetProgress& set, uint32_t member);
  void Make(Version& version, SetProgress& set);
  bool TakeKept(Version& version, SetProgress& set);
  uint64_t EstimateRoom(const Version& version, const SetProgress& set) const;
  uint64_t NaturalBytesBefore(const Version& version, const SetProgress& set) const;
  void OnMade(const Generation& generation, const SetIdentity& identity, std::vector<uint32_t> members,
              std::vector<std::vector<OwnRange>> ranges, Result<std::vector<BlockTable>> tables, const MakeNotes& notes);
  // Asks the member, once for each time that something of it did not fit.
  void AskForProof(const Version& version, const SetIdentity& identity, uint32_t member);
  void OnOwnGroupDone(Version& version);
  void AddGroups(Version& version, const std::vector<uint32_t>& done);
  void OnGroupsChanged(Version& version);
  void TellNodes(Version& version);
  void AskAboutGroups(Version& version);
  void AskNode(Version& version, const std::string& node);
  void Fail(Version& version, const Status& why);
  static Status NodeFailure(const Generation& generation, const Status& why);
  // A node has lost its part of a version that is at level NODE: it can be restored, and is not safe from the next loss.
  void Weaken(Version& version, const Status& why);
  // Looks before this node says that it holds what it is to hold. True: it is given up soon (OnTierLost).
  bool HasJustLost(const Version& version);
  // To those that may have heard that this node has done its part: all nodes, once the version is at level NODE.
  void TellGivenUp(const Version& version, const Status& why);
  // A node has answered so: kIncomplete, it does not take part.
  void OnRefusal(const Version& version, const Status& why);
  void FailSoon(const Generation& generation, const Status& why);
  // A worker has read an image of this node for one of the sets, and failed.
  void NoteIfDamaged(uint64_t image_id, const Status& read);
  SetProgress* FindSet(const SetIdentity& identity, Version** version) const;
  std::vector<TierUnit*> TiersOf(const Job& job) const;

  AgentCore& core_;
  Assignment& assignment_;
  HeldSets& held_sets_;
  ImageTable& images_;
  OwnSlots& own_slots_;
  Peers& peers_;
  LocalRetention& retention_;
  RedundancyRoom& room_;
  Tiers& tiers_;
  std::unique_ptr<Workers> measuring_;
  std::unique_ptr<Workers> making_;  // apart from the former: tables do not wait for what slow nodes bring
  std::deque<Early> early_;          // from members that were faster; the oldest go first
  std::set<Generation> posted_;
  std::map<Generation, Again> again_;  // of the jobs' present attempts
  ProtectOutcomes outcomes_;
};

}  // namespace kedge
