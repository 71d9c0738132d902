// What an agent and the store's records of attempts (store/attempts.h) say to each other, every quarter of a lease:
//
// - signs of life for attempts whose images this agent still carries to the store: without them `kedge gc` takes what it writes
//   for what a dead process left, one lease after the application's end;
// - whether a newer attempt has taken over one that has sessions here. Rank 0 learns that when it renews its lease; the ranks of
//   every node, also where rank 0 has died, hear it from their agent, and their calls say so. What the newer one went on from the
//   agent learns then, too: its node may be none of the job's any more, and what it has of abandoned versions goes.
//
// What fails is tried again soon.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "agent/tables/job.h"

namespace kedge {

class AgentCore;
class ImageTable;
class LocalRetention;
class Workers;

class AttemptWatch {
 public:
  AttemptWatch(AgentCore& core, ImageTable& images, LocalRetention& retention)
      : core_(core), images_(images), retention_(retention) {}

  // Once a second or so.
  void Tick();
  // What looks into the store that began at `since_ns` or later have found.
  struct Found {
    // kBusy: a newer attempt has taken over; ok: none has. Nothing: no look has told; one is under way, or comes soon, and
    // Waiters::Tick follows it. One that fails tells nothing: who was taken over may be who cannot see that.
    std::optional<Status> taken_over;
    Status error;  // why the last one could not tell; ok: none has failed
  };
  Found TakenOver(const Job& job, uint32_t attempt, int64_t since_ns);
  // The same as far as it is known, without a look: kBusy, or ok.
  Status Known(const Job& job, uint32_t attempt) const;
  // Whoever was to publish something of the attempt has found that one has taken over.
  void NoteTakenOver(const Job& job, uint32_t attempt, const Status& why);

 private:
  using Key = std::pair<JobKey, uint32_t>;  // of an attempt
  struct Watched {
    int64_t due_ns = 0;  // when the next sign of life is, and with it a look
    bool is_looking = false;
    std::optional<int64_t> looked_ns;  // when the look began that `taken_over` is from
    Status taken_over;                 // once it is not ok, it stays so
    std::optional<int64_t> failed_ns;  // when the look began that could not tell, if that was the last one
    Status error;                      // of that
    int64_t retry_ns = 0;              // no look before, unless one is due
  };
  // A look that is due gives a sign of life, too, if images are carried; any other leaves open when that is due.
  void Look(const Job& job, const Key& key, Workers& workers);
  bool IsCarried(const Key& key) const;
  void OnTakenOver(const Key& key, const Status& why);
  // What the store says that attempts of the job went on from.
  void LearnRestarts(const Job& job);

  AgentCore& core_;
  ImageTable& images_;
  LocalRetention& retention_;
  std::map<Key, Watched> attempts_;  // that have images on their way, or sessions
};

}  // namespace kedge
