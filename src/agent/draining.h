// Signs of life for attempts whose images this agent still carries to the store: without them `kedge gc` takes what it writes for
// what a dead process left, one lease after the application's end (store/attempts.h, MarkDraining).
//
// Every quarter of the lease, which stands in the attempt's record. A mark that fails is tried again soon.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "agent/model.h"

namespace kedge {

class Agent;

class Draining {
 public:
  explicit Draining(Agent& agent) : agent_(agent) {}

  // Once a second or so.
  void Tick();

 private:
  using Key = std::pair<JobKey, uint32_t>;  // of an attempt
  void Mark(const Job& job, const Key& key);

  Agent& agent_;
  std::map<Key, int64_t> next_ns_;  // of attempts that have images on their way; INT64_MAX: being marked
};

}  // namespace kedge
