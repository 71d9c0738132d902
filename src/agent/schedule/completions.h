// That a version is complete in the store: the node that finishes it there says so to the others, which would look into the
// store for it otherwise, now and then, and each all of its parts.
//
// The word goes along a tree over the nodes of the job (aggregation/scan_tree.h), from whoever learns of it to all neighbours but
// the one it came from. A node that does not hear it looks into the store as soon as somebody waits (door/waiters.h). All on the
// event loop's thread.
#pragma once

#include <string>

#include "agent/peers/peer_messages.h"
#include "agent/tables/job.h"
#include "net/network.h"

namespace kedge {

class AgentCore;
class Peers;
class Publisher;

class Completions {
 public:
  Completions(AgentCore& core, Peers& peers, Publisher& publisher);

  // This node has found the version complete, or has made it so.
  void OnComplete(const Generation& generation) const;

 private:
  void OnTold(const Job& job, const net::Peer& from, const CompletedNotice& notice, const net::Answer& answer) const;
  // `from`: not that one; empty: all neighbours.
  void Tell(const Job& job, const std::string& from, const Generation& generation) const;

  AgentCore& core_;
  Peers& peers_;
  Publisher& publisher_;
};

}  // namespace kedge
