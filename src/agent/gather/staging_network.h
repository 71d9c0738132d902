// How nodes and staging agents find each other: a folder that all of them see, with a file of each staging agent's address, and a
// secret of mode 0600 that both sides prove. Over the network that it opens a job is enlisted; from then on the staging agent is
// a node of that job like any other.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "net/authentication.h"
#include "net/network.h"
#include "session/messages.h"

namespace kedge {

struct StagingNetwork {
  net::Secret secret;
  std::vector<JobNode> agents;  // by name; of a staging agent itself: none

  // What src/net calls it: one for each secret, of which it tells 32 of 256 bits.
  std::string Name() const;
  // With its agents for members: a staging agent's own has none, and lets guests in.
  net::Membership MembershipOf(const std::string& self) const;
};

// Blocking. kNotFound: nobody serves there.
Result<StagingNetwork> FindStaging(const std::string& folder);
// Blocking: makes the secret, where there is none. `address` says from now on where the node's staging agent is.
Result<StagingNetwork> AnnounceStaging(const std::string& folder, const std::string& node, const std::string& address);
// The staging agent is not there any more.
void WithdrawStaging(const std::string& folder, const std::string& node);

}  // namespace kedge
