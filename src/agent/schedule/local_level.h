// Level LOCAL over the nodes of a job: which versions all ranks have captured, and what a node keeps until it knows.
//
// A node that holds the images of all its ranks promises the version to the others: it keeps it until it hears what has become
// of it. It tells the agent of rank 0's node, which leads. When every node has promised the same version, that one is complete
// at level LOCAL: the leader notes so and tells all, and each then lets older ones go. So at any time all nodes hold the newest
// version that any of them knows to be complete.
//
// A node promises one version of a name at a time, the oldest that it holds above the newest complete one: a message and its
// answer from each node, and one back, for each version. Who has promised an older one than another node is told: that node may
// have let the older one go (it keeps what it promised, and its newest), so this one passes it by and promises one that is not
// older than the other's. What is decided comes in the answer to a question of one's own, of which one at a time is under way,
// so that nobody counts on a promise that was taken back; word from the leader is reason to ask. Word that is lost is made good
// by asking now and then. A successor promises again what it finds: that is the oldest, so the same.
//
// Nodes that do not know each other, or do not hear of each other, know of no newer complete version, and keep what
// schedule/schedule.h says. All on the event loop's thread.
#pragma once

#include <functional>
#include <string>

#include "agent/peers/peer_messages.h"
#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class ImageTable;
class LocalRetention;
class Peers;

class LocalLevel {
 public:
  LocalLevel(AgentCore& core, ImageTable& images, Peers& peers, LocalRetention& retention);

  // Something about the versions of the name, or about the job's nodes, may have changed. Lets go of none.
  void Consider(Job& job, const std::string& name);
  // The job goes on from this generation, which all its ranks have restored.
  void OnRestored(Job& job, const Generation& generation);

  // Whether another node does not have the version, and has a newer one: it does not become complete any more.
  static bool IsPassedBy(const Version& version);
  // What is waited for until the version is complete, for people.
  std::string Missing(const Version& version) const;

 private:
  // ---- From other nodes ----
  Result<LocalReply> OnPromise(Job& job, const LocalPromise& promise);
  void OnNews(Job& job, const LocalNews& news);

  // Of the present attempt.
  static LocalPromises& PromisesOf(Job& job, const std::string& name);
  void Withdraw(Job& job, const Generation& generation);
  void Ask(Job& job, const std::string& name);
  void AskLater(const Generation& asked, Duration pause);
  // To the leader, which may be this node.
  void Send(Job& job, const LocalPromise& promise, std::function<void(const Result<LocalReply>&)> done);
  void OnAnswer(const Generation& asked, const Result<LocalReply>& answer);
  void SetComplete(Job& job, const Generation& generation);
  // As the leader: decides as far as it can, and tells all nodes that it concerns but `asking`.
  void Settle(Job& job, const std::string& name, const std::string& asking);
  // The name's versions are looked at again, and those who wait for them.
  void OnChange(Job& job, const std::string& name);

  AgentCore& core_;
  ImageTable& images_;
  Peers& peers_;
  LocalRetention& retention_;
};

}  // namespace kedge
