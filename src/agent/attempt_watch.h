// What an agent and the store's records of attempts (store/attempts.h) say to each other, every quarter of a lease:
//
// - signs of life for attempts whose images this agent still carries to the store: without them `kedge gc` takes what it writes
//   for what a dead process left, one lease after the application's end;
// - whether a newer attempt has taken over one that has sessions here. Rank 0 learns that when it renews its lease; the ranks of
//   every node, also where rank 0 has died, hear it from their agent, and their calls say so.
//
// What fails is tried again soon.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "agent/model.h"

namespace kedge {

class Agent;

class AttemptWatch {
 public:
  explicit AttemptWatch(Agent& agent) : agent_(agent) {}

  // Once a second or so.
  void Tick();
  // What a look into the store that began at `since_ns` or later has found: kBusy when a newer attempt has taken over, ok when
  // none has or the store does not answer. Nothing: there was none; one is under way, and Waiters::OnLook follows it.
  std::optional<Status> TakenOver(const Job& job, uint32_t attempt, int64_t since_ns);

 private:
  using Key = std::pair<JobKey, uint32_t>;  // of an attempt
  struct LastLook {
    int64_t began_ns = 0;
    Status taken_over;
  };
  void Look(const Job& job, const Key& key, bool is_carried);
  void OnTakenOver(const Key& key, const Status& why);

  Agent& agent_;
  std::map<Key, int64_t> next_ns_;  // of attempts that have images on their way, or sessions; INT64_MAX: being looked at
  std::map<Key, LastLook> last_look_;
};

}  // namespace kedge
