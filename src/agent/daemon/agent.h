// The agent of one node and user: owns every table, runs the event loop, ties the modules together.
//
// One thread, the loop's, runs all modules and takes no lock; Workers block on devices and post their results back. The
// state can be rebuilt at any instruction from the slot tables, the mailboxes, the local records and the store
// (recovery.h), so being killed is an ordinary way to end.
//
//   server ─ messages ─► sessions ─ mailbox entries ─► assignment (places), images (captures)
//   images ─ captured pieces ─► flush ─ written images ─► publish ─ levels ─► images (retention), waiters
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/tables/model.h"
#include "agent/tables/workers.h"
#include "base/clock.h"
#include "os/events/event_fd.h"
#include "os/events/event_loop.h"
#include "placement/policy.h"
#include "session/config_keys.h"

namespace kedge {

namespace os {
class TextServer;
}
class Assignment;
class AttemptWatch;
class Calls;
class Fetch;
class Flush;
class HeldSets;
class Images;
class Inventories;
class LocalLevel;
class MeasurePeers;
class MemoryLedger;
class OwnSlots;
class Peers;
class Protect;
class Publish;
class Server;
class Sessions;
class StillStored;
class StraightParts;
class Takings;
class Throughput;
class Tiers;
class Tuning;
class Turns;
class Waiters;
class Windows;

// Counted since this agent started; status and metrics print them.
struct AgentCounters {
  uint64_t images_captured = 0;
  uint64_t bytes_captured = 0;
  uint64_t images_stored = 0;
  uint64_t bytes_flushed = 0;
  uint64_t flush_retries = 0;
  uint64_t flush_failures = 0;
  uint64_t versions_completed = 0;
  uint64_t versions_skipped = 0;
  uint64_t versions_removed = 0;
  uint64_t places_assigned = 0;
  uint64_t places_through = 0;
  uint64_t places_waited = 0;
  uint64_t chunks_released = 0;
  uint64_t recalls = 0;
  uint64_t images_evicted = 0;
  uint64_t versions_protected = 0;
  uint64_t protect_failures = 0;
  uint64_t images_brought = 0;
  uint64_t inventories_asked = 0;
  uint64_t parts_leased = 0;
  uint64_t blocks_sealed = 0;
  uint64_t images_dropped = 0;
  uint64_t messages_refused = 0;  // entries of a mailbox that made no sense
  uint64_t sessions_broken = 0;
  uint64_t tiers_lost = 0;
  uint64_t images_recovered = 0;
  uint64_t images_damaged = 0;
  uint64_t retention_failures = 0;
  uint64_t file_publish_failures = 0;
};

struct AgentOptions {
  NodeSettings node;
  // As in Hello: what was set explicitly, to compare with what jobs ask for.
  std::vector<std::pair<std::string, std::string>> node_keys;
};

class Agent {
 public:
  // kBusy: another agent serves this node; that is no failure. Takes over what a predecessor left.
  static Result<std::unique_ptr<Agent>> Start(AgentOptions options);
  ~Agent();

  // Until it has been idle for agent.idle_timeout, is told to leave, or RequestStop. Returns what to say about it.
  std::string Run();
  // Only writes a descriptor: may be called from a signal handler. The agent leaves its state for a successor.
  void RequestStop();

  // ---- For the modules ----
  const NodeSettings& settings() const { return options_.node; }
  const AgentOptions& options() const { return options_; }
  os::EventLoop& loop() { return *loop_; }
  const Clock& clock() const { return SystemClock(); }
  Workers& workers() { return *workers_; }
  PlacementPolicy& policy() { return *policy_; }
  ControlBlock& control() { return *ControlOf(control_); }
  const os::SharedMapping& control_mapping() const { return control_; }
  const os::EventFd& wake() const { return wake_; }
  AgentCounters& counters() { return counters_; }
  const std::string& boot_id() const { return boot_id_; }
  int64_t started_ns() const { return started_ns_; }

  Assignment& assignment() { return *assignment_; }
  AttemptWatch& attempt_watch() { return *attempt_watch_; }
  Calls& calls() { return *calls_; }
  Fetch& fetch() { return *fetch_; }
  Windows& windows() { return *windows_; }
  Inventories& inventories() { return *inventories_; }
  Flush& flush() { return *flush_; }
  HeldSets& held_sets() { return *held_sets_; }
  Images& images() { return *images_; }
  LocalLevel& local_level() { return *local_level_; }
  StillStored& still_stored() { return *still_stored_; }
  StraightParts& straight_parts() { return *straight_parts_; }
  MeasurePeers& measure_peers() { return *measure_peers_; }
  MemoryLedger& memory() { return *memory_; }
  OwnSlots& own_slots() { return *own_slots_; }
  Peers& peers() { return *peers_; }
  Protect& protect() { return *protect_; }
  Publish& publish() { return *publish_; }
  Server& server() { return *server_; }
  Sessions& sessions() { return *sessions_; }
  Takings& takings() { return *takings_; }
  Throughput& throughput() { return *throughput_; }
  Tiers& tiers() { return *tiers_; }
  Tuning& tuning() { return *tuning_; }
  Turns& turns() { return *turns_; }
  Waiters& waiters() { return *waiters_; }

  std::map<JobKey, std::unique_ptr<Job>>& jobs() { return jobs_; }
  std::shared_ptr<StoreContext> MakeStore(const StoreId& id, const JobKeys& keys) const;
  Job* FindJob(const StoreId& store_id, const std::string& name);
  // Whether the run folder and the tiers are where they were; a pool that is gone is made anew.
  void CheckPlaces();
  // Something else to do before the loop may sleep.
  void Nudge() { nudged_ = true; }
  // Another node needs this one: its idle time begins anew.
  void Touch() { busy_ns_ = clock().NowNs(); }
  // Leave: at once, or when nothing is pending any more.
  void Leave(bool when_drained) { (when_drained ? leave_when_drained_ : leave_now_) = true; }
  // Runs `work` on a worker and `done` with its result here, unless the agent has gone by then.
  template <typename Work, typename Done>
  void Background(Work work, Done done) {
    workers_->Submit([this, work = std::move(work), done = std::move(done)]() mutable {
      auto result = work();
      loop_->Post([done = std::move(done), result = std::move(result)]() mutable { done(std::move(result)); });
    });
  }

  std::string Path(const std::string& relative) const { return options_.node.run_folder + "/" + relative; }

 private:
  explicit Agent(AgentOptions options);
  Status Prepare();
  void Housekeep();
  void CheckReachable();
  bool IsIdle() const;
  // Removes everything that is of no more use; says what stays and why. `stored`: whether the stores have what counts as stored.
  std::string CleanUp(const Status& stored);

  AgentOptions options_;
  std::string boot_id_;
  int64_t started_ns_ = 0;
  AgentCounters counters_;
  os::EventFd wake_;
  os::EventFd stop_;
  std::unique_ptr<os::EventLoop> loop_;
  os::SharedMapping control_;
  std::unique_ptr<PlacementPolicy> policy_;
  std::map<JobKey, std::unique_ptr<Job>> jobs_;
  std::unique_ptr<Throughput> throughput_;
  std::unique_ptr<MemoryLedger> memory_;
  std::unique_ptr<Tiers> tiers_;
  std::unique_ptr<Images> images_;
  std::unique_ptr<LocalLevel> local_level_;
  std::unique_ptr<OwnSlots> own_slots_;
  std::unique_ptr<HeldSets> held_sets_;
  std::unique_ptr<Flush> flush_;
  std::unique_ptr<Publish> publish_;
  std::unique_ptr<AttemptWatch> attempt_watch_;
  std::unique_ptr<StillStored> still_stored_;
  std::unique_ptr<StraightParts> straight_parts_;
  std::unique_ptr<Assignment> assignment_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<Tuning> tuning_;
  std::unique_ptr<Takings> takings_;
  std::unique_ptr<Turns> turns_;
  std::unique_ptr<Calls> calls_;
  std::unique_ptr<Waiters> waiters_;
  std::unique_ptr<Inventories> inventories_;
  std::unique_ptr<Fetch> fetch_;
  std::unique_ptr<Windows> windows_;
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<MeasurePeers> measure_peers_;
  std::unique_ptr<Protect> protect_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<os::TextServer> metrics_;
  std::unique_ptr<Workers> workers_;  // last: its end waits for work that uses the others
  bool nudged_ = false;
  bool leave_now_ = false;
  bool leave_when_drained_ = false;
  bool unreachable_ = false;  // the run folder was removed, or is another agent's by now
  int64_t busy_ns_ = 0;       // when it was last not idle
};

}  // namespace kedge
