// Which levels a new version is to reach. The ranks say whose turn it is by count (schedule/schedule.h). Where an interval limits
// a level besides, the clock decides, and that of one node does so for all: the agent of rank 0's node decides when an image of
// the version comes to it, and the others ask it, again and again while it has none yet. Until then a version is undecided: its
// images lie on the node, kept as if they were owed to a level, and nothing of them is flushed.
//
// What is decided stays so, also for a successor: it is in the job's file before anybody is told. An image that rank 0 has
// written straight to the store, having no agent just then, decides for the store. A version that rank 0 has passed by without
// any, or ended without, gets no level. Nodes that do not know each other go by their own clocks; so does one that has not heard
// from the deciding agent for fifteen seconds, while its own ranks run. All on the event loop's thread.
#pragma once

#include <map>
#include <string>

#include "agent/peers/peer_messages.h"
#include "agent/tables/job.h"
#include "format/wire.h"

namespace kedge {

class AgentCore;
class ImageFlusher;
class ImageTable;
class LocalRetention;
class Peers;
class Tuning;

class Turns {
 public:
  Turns(AgentCore& core, ImageFlusher& flush, ImageTable& images, Peers& peers, LocalRetention& retention, Tuning& tuning);

  // A new version, whose turn it is by count for the levels in `due`.
  void Schedule(Version& version, const ScheduledLevels& due);
  // The same, of a predecessor that had not heard yet. REQUIRES: Recover follows.
  void LeaveUndecided(Version& version, const ScheduledLevels& due) const;
  void Recover();

  // With the job's file. REQUIRES: all of the job whose Hello it is.
  static void Save(const DecidedTurns& turns, Encoder& encoder);
  static void Load(Decoder& decoder, const Hello& hello, DecidedTurns* turns);

 private:
  // The answer to another node.
  TurnReply OnAsked(const Job& job, const TurnRequest& request);
  ScheduledLevels ByOwnClock(Version& version, const ScheduledLevels& due);
  void SetLevels(Version& version, const ScheduledLevels& levels);
  void Ask(const Version& version);
  void OnAnswer(const Generation& generation, const Result<TurnReply>& answer);
  // Of an undecided one: its images set out.
  void Decide(Version& version, const ScheduledLevels& levels);
  // For those who ask.
  void Remember(Job& job, const Generation& generation, const ScheduledLevels& levels);
  // Whether rank 0 has gone there itself; unless it was looked for a moment ago.
  void LookIntoStore(const Job& job, const Generation& generation, bool is_passed);

  AgentCore& core_;
  ImageFlusher& flush_;
  ImageTable& images_;
  Peers& peers_;
  LocalRetention& retention_;
  Tuning& tuning_;
  std::map<Generation, int64_t> looked_ns_;  // when the store was looked into last
};

}  // namespace kedge
