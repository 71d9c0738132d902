// An agent inside the test's process, with a store, a run folder and a small pool of its own in a temporary folder that goes
// with it. Its loop turns only when the test says so, so that a test decides what is handled before what; workers are real.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/daemon/agent.h"
#include "store/store.h"

namespace kedge::testing {

class LocalAgent {
 public:
  // Ready when it returns: all slots can be assigned. `calibrations`: the folder of that name; empty: nothing is kept.
  LocalAgent(uint32_t slots, uint64_t slot_bytes, const std::string& calibrations = "", uint64_t flush_bytes_per_second = 0);
  ~LocalAgent();
  LocalAgent(const LocalAgent&) = delete;
  LocalAgent& operator=(const LocalAgent&) = delete;

  Agent& operator*() { return *agent_; }
  Agent* operator->() { return agent_.get(); }
  TierUnit& pool();
  const StoreId& store_id() const { return store_id_; }
  std::string store_path() const { return folder_ + "/store"; }

  // A session of one of so many ranks of the job "job", in its first attempt, as if a client had said hello. `keys`: of the job;
  // the store is this agent's. The agent's own.
  Session& Attach(uint32_t rank, uint32_t ranks, JobKeys keys = {});
  // The agent ends as one that is killed does, between two turns, and another one takes over what it left. Sessions, jobs and all
  // else that belonged to it are gone; the successor has them anew, sessions by their ids.
  void Succeed();

  // One turn of the agent's loop, without sleep.
  void Turn();
  // Until the condition holds; false after some seconds.
  bool TurnUntil(const std::function<bool()>& condition);

 private:
  void Start();

  std::string folder_;
  StoreId store_id_;
  AgentOptions options_;
  uint32_t slots_;
  std::unique_ptr<Agent> agent_;
};

}  // namespace kedge::testing
