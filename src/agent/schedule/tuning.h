// What is measured of each job, the interval between checkpoints that follows from it, and telling the job.
//
// Clients add up their calls in their mailboxes, the agent times protection and flushes, and the store's attempt records say how
// often the job has died and how long it ran. From these, a worker computes the best interval (schedule/interval_advice.h), at
// most every kAdvicePeriod. It is shown by status and metrics; with schedule.adapt it is written into the mailboxes, where
// kedge_checkpoint_due finds it. Rank 0 decides for its job (client/checkpoint/pace.h), so only the agent of rank 0's node reads
// the attempts, and only what it says counts. A successor goes on with what lies in the job's file.
//
// With schedule.adapt_levels the counts of levels change too, with a "due" (client/checkpoint/pace.h): to the best ones, where
// they are worth it (WorthwhileLevels), once the present ones have seen two versions and one of these was to reach the job's
// highest level. So they do not flip to and fro, and a job gets versions into the store however often they change.
#pragma once

#include <cstdint>

#include "agent/tables/job.h"
#include "agent/tables/session.h"
#include "base/duration.h"
#include "format/wire.h"

namespace kedge {

class AgentCore;

class Tuning {
 public:
  explicit Tuning(AgentCore& core) : core_(core) {}

  // A client has attached: it is told what holds, and a new attempt's past is looked up.
  void OnAttached(Session& session);
  // What the client has added to its mailbox since the last time.
  void Collect(Session& session);
  // Of a session taken over: what is in its mailbox was counted by the predecessor.
  static void MarkCollected(Session& session);
  // The image has just become durable in the store.
  void OnStored(const Image& image);
  // The version has just reached level NODE.
  void OnProtected(const Version& version);
  // Once a second.
  void Tick();

  // What was measured, the times of now included.
  JobMeasurement Measured(const Job& job);
  // The counts of levels that the ranks showed last, else the configured ones. That for nodes is 0 where they do not protect
  // each other.
  static LevelCounts LevelsInForce(const Job& job);
  // What the ranks are to go by from their next "due" on; none: the agent has no say.
  LevelCounts LevelsToTell(Job& job);
  // What the version is to reach has been decided.
  void OnScheduled(const Version& version);
  // What kedge_checkpoint_due goes by on this node's ranks, as far as the agent has a say; zero: it has none.
  static Duration ToldInterval(const Job& job);
  // Whether rank 0 of the job is one of this node's.
  bool Decides(const Job& job) const;

  // For the job's file.
  static void Save(const JobTuning& tuning, Encoder& encoder);
  static void Load(Decoder& decoder, JobTuning* tuning);

 private:
  void ReadHistory(Job& job);
  void Advise(Job& job);
  void Tell(Job& job);
  // What the ranks show now.
  void NoteLevels(Job& job);

  AgentCore& core_;
  int64_t ticked_ns_ = 0;
};

}  // namespace kedge
