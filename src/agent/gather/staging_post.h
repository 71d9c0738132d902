// The staging agent's side (agent.staging): says where it is, and takes jobs that nodes enlist. What it then does for them is the
// carrier's (carrier.h). On the event loop's thread.
#pragma once

#include <functional>
#include <string>

#include "agent/gather/staging_network.h"
#include "agent/peers/peer_messages.h"
#include "base/status.h"

namespace kedge {

class AgentCore;
class Peers;

class StagingPost {
 public:
  // A job with its members, to be served from now on.
  using Enlisted = std::function<Status(const Hello&, const Membership&)>;
  StagingPost(AgentCore& core, Peers& peers) : core_(core), peers_(peers) {}

  // Hears why nobody can find this agent, which is there for nothing else.
  using Failed = std::function<void(const Status&)>;
  // REQUIRES: settings have a folder.
  void Open(Enlisted enlisted, Failed failed);
  // Nobody is to find it any more.
  void Close();

 private:
  void Serve(const Result<StagingNetwork>& network);

  AgentCore& core_;
  Peers& peers_;
  Enlisted enlisted_;
  Failed failed_;
  bool is_open_ = false;
};

}  // namespace kedge
