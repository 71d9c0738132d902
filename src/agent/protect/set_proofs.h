// Proofs of images: who is asked when a block does not fit its table, and answers.
//
// A byte of the block has changed on the way, or in its owner's memory since the capture. The owner reads the whole image again
// and holds it against the checksums of capture; where that fails, its version is given up there and where it was asked from.
#pragma once

#include "agent/peers/peer_messages.h"
#include "agent/tables/version.h"
#include "net/network.h"

namespace kedge {

class AgentCore;
class NodeLevel;
class Peers;

class SetProofs {
 public:
  SetProofs(AgentCore& core, NodeLevel& node_level, Peers& peers);

  // Asks the member, once for each time that something of it did not fit. REQUIRES: version.protection.
  void Ask(const Version& version, const SetIdentity& identity, uint32_t member);

 private:
  // A pass over an image; who proves wrong gives up by himself anyway.
  static constexpr Duration kProofTimeout = std::chrono::seconds(60);

  // A member doubts the image of ours in the set.
  void OnAsked(const Job& job, const net::Peer& peer, const SetRequest& request, net::Answer answer);
  void Fail(const SetIdentity& identity, const Status& why);

  AgentCore& core_;
  NodeLevel& node_level_;
  Peers& peers_;
};

}  // namespace kedge
