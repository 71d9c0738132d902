// Which levels a new version is to reach. The ranks say whose turn it is by count (schedule/schedule.h). Where an interval limits
// a level besides, the clock decides, and that of one node does so for all: the agent of rank 0's node decides when an image of
// the version comes to it, and the others ask it, again and again while it has none yet. Until then a version is undecided: its
// images lie on the node, kept as if they were owed to a level.
//
// An image that rank 0 has written straight to the store, having no agent just then, decides for the store. A version that rank
// 0 has passed by without any, or ended without, gets no level. Nodes that cannot speak with each other go by their own clocks;
// so does one that has not reached the deciding agent for ten seconds. All on the event loop's thread.
#pragma once

#include <functional>

#include "agent/model.h"
#include "agent/peer_messages.h"

namespace kedge {

class Agent;

class Turns {
 public:
  explicit Turns(Agent& agent) : agent_(agent) {}

  // A new version, whose turn it is by count for the levels in `due`.
  void Schedule(Version& version, const ScheduledLevels& due);
  // What a predecessor has left undecided.
  void Recover();
  // By another node.
  void OnAsked(Job& job, const TurnRequest& request, const std::function<void(const TurnReply&)>& answer);

 private:
  ScheduledLevels ByOwnClock(Version& version, const ScheduledLevels& due);
  void SetLevels(Version& version, const ScheduledLevels& levels);
  void Ask(const Generation& generation);
  void OnAnswer(const Generation& generation, const Result<TurnReply>& answer);
  // Of an undecided one: its images set out.
  void Decide(Version& version, const ScheduledLevels& levels);
  // For those who ask.
  static void Remember(Job& job, const Generation& generation, const ScheduledLevels& levels);

  Agent& agent_;
};

}  // namespace kedge
