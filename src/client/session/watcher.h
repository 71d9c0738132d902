// The context's background thread: everything that must go on while the application computes.
//
// It watches the agent's socket and brings another agent when it closes; answers the agent's recalls when no call does;
// populates this process's mapping of the pool in small slices, slots that are assigned first, while the application is in no
// call; and on rank 0 renews the job's lease. It takes the context's lock only when that is free at once, so that no call waits
// for it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "client/core/core.h"
#include "client/session/agent_session.h"
#include "store/attempts.h"

namespace kedge::client {

class Watcher {
 public:
  // Both outlive the watcher.
  Watcher(Core* core, AgentSession* session) : core_(core), session_(session) {}
  ~Watcher() { Stop(); }

  Status Start();
  void Stop();

 private:
  void Run();
  void Tick();
  void BringAgent();
  void RenewLease();
  // Of an attempt that began without the store.
  void RecordAttempt();
  // One slice of a slot that is assigned and unused; false: nothing is left to do for now.
  bool PopulateSlice(const SlotRange& range);
  void Sleep(Duration duration);

  Core* core_;
  AgentSession* session_;
  std::thread thread_;
  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;

  AgentSession::Watched watched_;
  int64_t next_renewal_ns_ = 0;
  LeaseWatch lease_watch_;  // of whoever holds the job in the store, for an attempt that began without
  int64_t next_start_ns_ = 0;
  Duration back_off_{};
};

}  // namespace kedge::client
