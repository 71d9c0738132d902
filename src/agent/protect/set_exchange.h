// What the members of a set tell each other: of their images, and that their redundancy is made.
//
// A member shows another its own image, and asks for the other's, until it knows that and has heard that it is done; then it has
// yet to tell that it is done itself. An answer says how far its sender is. Word that comes before the version is under way here
// is kept for it. A node that has given the version up, or has no image of it and never will, says so: then nobody waits for it.
#pragma once

#include <cstdint>
#include <deque>

#include "agent/peers/peer_messages.h"
#include "agent/tables/job.h"
#include "agent/tables/protection.h"

namespace kedge {

class AgentCore;
class HeldSets;
class NodeLevel;
class Peers;

class SetExchange {
 public:
  SetExchange(AgentCore& core, HeldSets& held_sets, NodeLevel& node_level, Peers& peers);

  // What members that were faster have told of its sets. REQUIRES: version.protection, with no set of it under way before.
  void OnBegun(Version& version);
  // Asks the members whose turn it is. REQUIRES: our own is known.
  void AskMembers(Version& version, SetProgress& set);
  void OnVersionGone(const Version& version);
  // The answer to another node.
  Result<ExchangeReply> OnAsked(Job& job, const ExchangeRequest& request);

 private:
  static constexpr Duration kCallTimeout = std::chrono::seconds(10);
  // What a member is asked again after: an answer that left something open, and none.
  static constexpr Duration kAskPauseMin = std::chrono::milliseconds(100);
  static constexpr Duration kAskPauseMax = std::chrono::seconds(2);
  static constexpr Duration kRetryPause = std::chrono::milliseconds(500);
  static constexpr size_t kEarlyMax = 4096;

  struct Early {
    SetIdentity set;
    uint32_t from = 0;
    bool done = false;
    SetMember member;
  };
  void Ask(Version& version, SetProgress& set, uint32_t member);
  void OnAnswer(const SetIdentity& identity, uint32_t member, bool told_done, const Result<Buffer>& answer);

  AgentCore& core_;
  HeldSets& held_sets_;
  NodeLevel& node_level_;
  Peers& peers_;
  std::deque<Early> early_;  // the oldest go first
};

}  // namespace kedge
