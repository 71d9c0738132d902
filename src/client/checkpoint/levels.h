// How far versions are protected: wait, test, pending.
//
// The agent answers for what it holds; for the rest the store is asked: whoever wrote the version record, it is there. A wait
// lets the context's lock go between short questions, so that other threads and the watcher get on.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "base/status.h"
#include "client/core/core.h"
#include "client/core/ledger.h"
#include "client/session/agent_session.h"
#include "session/messages.h"

namespace kedge::client {

class Levels {
 public:
  Levels(Core* core, Ledger* ledger, AgentSession* session) : core_(core), ledger_(ledger), session_(session) {}

  // `name` empty: the newest checkpoint of this context. `lock` holds the context's lock on entry and return.
  Status Wait(std::unique_lock<std::mutex>& lock, const std::string& name, int64_t version, Level level, Duration timeout);
  Result<Level> Test(const std::string& name, int64_t version);
  // kBusy while a flush of this rank runs or waits.
  Status Pending();
  // Lets go of this rank's local copies of a name (empty: of all) that are not owed to the store any more.
  Status Cleanup(const std::string& name);
  Status Pin(const std::string& name, int64_t version, bool pinned);
  // Until all of this job on this node is at its last level, or a flush fails.
  Result<DrainReply> Drain(Duration timeout);
  // kLost: the newest image that this rank has handed over went with its agent and that agent's memory. The next agent does not
  // know of it, and counts it among nothing that a drain waits for.
  Status WhetherLost() const;

 private:
  struct Subject {
    Generation generation;
    bool at_agent = false;  // this rank's image was given to the agent
    bool started = false;   // or is still being captured
    Level told = Level::kNone;
    Status failure;
  };
  Result<Subject> Find(const std::string& name, int64_t version);
  LevelReply AskStore(const Generation& generation) const;
  bool WasMadeGood(const Generation& generation) const;
  static Status Verdict(const LevelReply& reply, Level wanted, bool* reached);

  Core* core_;
  Ledger* ledger_;
  AgentSession* session_;
};

}  // namespace kedge::client
