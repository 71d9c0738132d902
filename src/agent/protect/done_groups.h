// How all nodes hear which groups of a version are done, and which node has given it up.
//
// A group whose sets are done on all its members is done. Word goes along a tree that the layout gives: the first member of a
// group hears for its group, that of the first group for all. So a node has a few ways to others, and says a few things a
// version, however many groups there are. It says which groups are done, as far as it knows: to its parent when its own group is,
// to its children when all are; the answer says the same. Nothing is repeated to a node that missed it: a node that waits asks
// its parent now and then; while that one does not answer it asks members of the other groups, each time other ones. Once all
// groups are done the version is at level NODE.
#pragma once

#include <string>
#include <vector>

#include "agent/peers/peer_messages.h"
#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class NodeLevel;
class Peers;

class DoneGroups {
 public:
  DoneGroups(AgentCore& core, NodeLevel& node_level, Peers& peers);

  // All sets of the node's own group are done: says so, and asks about the others; to be called until the version is at level
  // NODE. REQUIRES: version.protection.
  void OnOwnSetsDone(Version& version);
  // The answer to another node.
  Result<GroupsReply> OnTold(Job& job, const GroupsNotice& notice);
  // What lay in lost tiers is not counted on any more, here or by other nodes: versions on their way with it are given up, and
  // those that are at level NODE count as such again only after a restart from them.
  void OnTierLost();

 private:
  static constexpr Duration kCallTimeout = std::chrono::seconds(10);
  static constexpr Duration kAskPause = std::chrono::milliseconds(500);

  void OnOwnGroupDone(Version& version);
  void Add(Version& version, const std::vector<uint32_t>& done);
  void OnChanged(Version& version);
  void TellNodes(Version& version);
  void AskAboutOthers(Version& version);
  void Ask(Version& version, const std::string& node);
  // To those that may have heard that this node has done its part: all nodes, once the version is at level NODE.
  void TellGivenUp(const Version& version, const Status& why);

  AgentCore& core_;
  NodeLevel& node_level_;
  Peers& peers_;
};

}  // namespace kedge
