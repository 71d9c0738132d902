// The table of jobs: what the agent knows, as plain data; the modules beside it hold the rules.
//
// All of it belongs to the event loop's thread. Workers get copies or shared objects (Tier, StoreContext, FlushObject),
// never a pointer into these tables. Objects are found again by id, because they may be gone when an answer comes.
//
//   Job (store id, name) ── Version (one generation) ── Image (one rank) ── chunks in slots of TierUnits
//   Session (one client process) ── slots assigned to it, images it has begun
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "agent/tables/version.h"
#include "base/log.h"
#include "format/node_records.h"
#include "reduce/worth.h"
#include "schedule/interval_advice.h"
#include "schedule/schedule.h"
#include "session/halt.h"
#include "session/messages.h"
#include "store/attempts.h"
#include "store/lineage.h"

namespace kedge {

namespace redundancy {
struct Layout;
}

// What is measured of a job, and the advice that follows (tuning.h).
struct JobTuning {
  JobMeasurement measured;  // but for failures and time, which are made up of what follows
  AttemptHistory history;   // of the attempts before history_attempt
  uint32_t history_attempt = 0;
  bool history_known = false;         // it has come from the store
  double attempt_seconds = 0;         // of history_attempt, as far as this node has seen it
  std::set<uint32_t> node_restarts;   // attempts that began with images from other nodes, and with nothing from the store
  std::set<uint32_t> store_restarts;  // attempts that began with bytes from the store
  std::optional<IntervalAdvice> advice;
  Status no_advice;    // why there is none, or no newer one
  LevelCounts levels;  // that the ranks showed last
  // Since those changed: versions, and whether one of them was to reach the highest of the job's levels.
  uint32_t versions_since_change = 0;
  bool had_highest_since_change = false;
  bool changed = false;    // since the advice was asked for
  bool advising = false;   // a worker is at it
  int64_t advised_ns = 0;  // 0: never
};

// Of a checkpoint name in one attempt: what this node has promised the others, and, as the leader, what they have promised
// (local_level.h).
struct LocalPromises {
  uint32_t attempt = 0;
  std::optional<Generation> own;
  std::optional<Generation> oldest;  // nothing before it is promised any more: another node has passed it by
  int64_t promised_ns = 0;
  bool asking = false;               // the leader, what has become of it
  bool ask_again = false;            // it has news
  std::vector<std::string> missing;  // nodes that have yet to promise the same, as it said last
  Status error;                      // of the last question
  std::map<std::string, Generation> by_node;
  std::optional<Generation> newest;  // of these
};

// Its ranks took different versions, and none is complete since (takings.h).
struct KnownDisagreement {
  Moment at;
  Status why;
};

using JobKey = std::pair<StoreId, std::string>;
using NameKey = std::pair<JobKey, std::string>;  // of a checkpoint name of a job
inline JobKey JobKeyOf(const Generation& generation) {
  return {generation.store_id, generation.job};
}
inline NameKey NameKeyOf(const Generation& generation) {
  return {JobKeyOf(generation), generation.name};
}

struct Job {
  StoreId store_id;
  std::string name;
  Hello hello;  // the newest one
  Membership members;
  std::vector<JobNode> guests;                       // nodes of former attempts that are not among them, and answer
  std::vector<JobNode> stagers;                      // nodes without ranks that write for the others (gather/stagers.h)
  std::set<std::string> enlisted_at;                 // of these, who know of this attempt
  bool seeks_stagers = false;                        // they are being told of it
  std::shared_ptr<const redundancy::Layout> layout;  // null: its nodes do not protect each other
  std::shared_ptr<StoreContext> store;
  std::map<Generation, std::unique_ptr<Version>> versions;  // AddVersion and RemoveVersion change it
  // The same by name, attempt, take, version: of one take there should be one version (takings.h).
  std::set<std::tuple<std::string, uint32_t, uint32_t, int64_t>> taken;
  std::vector<RestoredRecord> restored;                  // what its attempts went on from, the newest last
  LogRateLimit failures_told{std::chrono::seconds(10)};  // to its ranks, for people
  LogRateLimit retries_logged{std::chrono::seconds(10)};
  std::map<std::string, ScheduleState> schedule;  // by checkpoint name
  // What was decided by intervals, oldest first: for other nodes that ask late (turns.h).
  DecidedTurns turns;
  std::map<std::string, LocalPromises> promises;  // by checkpoint name
  std::deque<ImageIdentity> takings_told;         // by other nodes, of the present attempt (takings.h)
  // By checkpoint name, of the present attempt; for a while after its sessions have ended, too.
  std::map<std::string, KnownDisagreement> disagreements;
  int64_t left_ns = 0;       // when a session of it ended last, or a node of it asked for something that this node writes for it
  bool is_enlisted = false;  // this node has no ranks of it, and writes for those that have
  JobTuning tuning;
  Halt halt;                                    // of the newest attempt, as the next field
  bool told_to_exit = false;                    // by a session that has ended
  uint32_t stored_attempt = 0;                  // the newest of which an image from here got to the store
  std::map<std::string, Moment> stored_newest;  // by checkpoint name: complete in the store, as last looked up there
  // By checkpoint name and rank: what is known of reducing it, where the job leaves open whether it is.
  struct Reducing {
    reduce::Worth sharing;      // looking for blocks that the store has already
    reduce::Worth compressing;  // looking for pieces that are written faster when they are compressed
    reduce::Viability viability;
  };
  std::map<std::pair<std::string, uint32_t>, Reducing> reducing;
  std::map<std::string, uint32_t> names_reached;  // of which the store was told that there was a version, by which attempt
  std::set<std::string> retention_running;
  std::set<std::string> retention_waits;  // names with something that may go later
  std::set<std::string> retention_wanted;

  JobKey key() const { return {store_id, name}; }
  // The version, without images when it is new (true).
  std::pair<Version*, bool> AddVersion(const ImageIdentity& identity);
  void RemoveVersion(const Generation& generation);
  // One is here, or was in the store, as far as this node was told.
  bool KnowsVersions() const { return !versions.empty() || !stored_newest.empty() || stored_attempt > 0 || !restored.empty(); }
  // That one of its attempts went on from there; whether that is news. The newest are kept.
  bool LearnRestored(const RestoredRecord& record);
  // Of the present attempt; what is said of older ones is passed over.
  void NoteDisagreement(const Generation& generation, const Status& why);
  // The checkpoint names that have versions on this node.
  std::set<std::string> Names() const;
  // Whether the rank's images of later versions came here while that one's did not: it went straight to the store, or is gone.
  bool HasPassedOver(const Generation& generation, uint32_t rank) const;
  // That of rank 0, whose agent speaks for the job; null: the nodes are not known.
  const JobNode* LeadingNode() const;
  // The same, when it leads that attempt and all its nodes can be reached by each other; else null.
  const JobNode* ReachableLeader(uint32_t attempt) const;
  // Of a checkpoint name, as far as this node knows of restarts and of versions that are complete.
  Lineage LineageOf(const std::string& checkpoint) const;
  // Whether a newer version of the name, of its lineage, is like that.
  template <typename Predicate>
  bool HasNewer(const Generation& generation, Predicate is_such) const {
    const Lineage lineage = LineageOf(generation.name);
    return std::any_of(versions.begin(), versions.end(), [&](const auto& entry) {
      const auto& [newer, version] = entry;
      return newer.name == generation.name && generation < newer && lineage.Has(newer) && is_such(*version);
    });
  }
  // Whether a version that is begun now can be protected.
  bool CanProtect() const { return layout != nullptr; }
  // Whether what this node lacks is asked of other nodes.
  bool BringsImages() const { return !members.nodes.empty() && (hello.keys.Protects() || !hello.keys.staging_folder.empty()); }
};

// How an image comes that is not here.
struct BringOptions {
  bool replace = false;     // although there is one here: it was found to be bad
  bool from_store = false;  // when no node has it
};

}  // namespace kedge
