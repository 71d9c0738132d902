// What all modules of the agent share: the node's settings, the loop and the workers, the tables of jobs and sessions, the
// counters, and the events by which a room tells others what has happened.
//
// Used on the loop's thread, except settings() and what a comment says.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/tables/byte_rate.h"
#include "agent/tables/client_requests.h"
#include "agent/tables/job.h"
#include "agent/tables/session_table.h"
#include "agent/tables/workers.h"
#include "base/clock.h"
#include "base/status.h"
#include "os/events/event_fd.h"
#include "os/events/event_loop.h"
#include "os/memory/mapping.h"
#include "placement/policy.h"
#include "session/config_keys.h"
#include "session/mailbox_file.h"

namespace kedge {

// Counted since this agent started; status and metrics print them.
struct AgentCounters {
  uint64_t images_captured = 0;
  uint64_t bytes_captured = 0;
  uint64_t images_stored = 0;
  uint64_t images_shipped = 0;     // of these, those that another node published
  uint64_t images_taken_back = 0;  // that another node was to write, and did not
  uint64_t images_carried = 0;     // of other nodes
  uint64_t bytes_flushed = 0;
  uint64_t bytes_saved = 0;
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
  uint64_t bytes_redundancy = 0;  // of sets, that this node has made
  uint64_t bytes_natural = 0;     // of protected images, that needed no redundancy
  uint64_t protect_failures = 0;
  uint64_t images_brought = 0;
  uint64_t inventories_asked = 0;
  uint64_t parts_leased = 0;
  uint64_t blocks_sealed = 0;
  uint64_t read_pauses = 0;  // of reads here and from here, for an application that communicates
  uint64_t read_pause_ns = 0;
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

// What rooms tell those below them, which they may not include, and those above that they have no other use for. Each is called
// at once, on the loop's thread; the daemon says who listens, before the first.
struct AgentEvents {
  std::function<void(const Generation&)> version_changed;
  // The version does not get to that level, kNode or kStore.
  std::function<void(const Version&, Level, const Status&)> version_failed;
  // The version is to get to the store, and nothing of it is written yet.
  std::function<void(Version&)> store_due;
  // An image of the version has ended, and who writes its images is not known yet (Version::writers).
  std::function<void(Version&)> writers_due;
  // It was looked whether a newer attempt has taken over.
  std::function<void()> attempts_looked_at;
  // What a successor must know of the job is another thing by now.
  std::function<void(const Job&)> job_changed;
  // What lay in the tier is gone; what is still open can be read.
  std::function<void(TierUnit*)> tier_lost;
  // A job has other nodes now, or more of them are known.
  std::function<void(const Job&)> members_changed;
  // An attempt goes on from this generation, of which a rank of this node has restarted.
  std::function<void(Job&, const Generation&, uint32_t rank)> job_restored;
  // The job's application has ended, and what survives goes to the store.
  std::function<void(const Job&)> job_drained;
  // Some room may have come free that redundancy waits for.
  std::function<void()> room_came;
  // An image began whose version is new here, with the levels that are due as the ranks count.
  std::function<void(Version&, const ScheduledLevels&)> version_begun;
  // A predecessor had not decided yet which levels are due for it.
  std::function<void(Version&, const ScheduledLevels&)> version_left_undecided;
  // The nodes hold the images of all ranks at that level, kLocal or kNode. Of kLocal it may be said again.
  std::function<void(const Version&, Level)> level_reached;
  // Its last image went from here.
  std::function<void(Version&)> version_gone;
  // It is about to be decided anew which of the name's versions stay.
  std::function<void(Job&, const std::string& name)> retention_begins;
  // Asked: whether the store may have the part of the version that is missing here, which a rank wrote there itself.
  std::function<bool(const Version&)> may_be_in_store;
  // What lies here of the version is cached, or not any more.
  std::function<void(Version&)> pins_changed;
  std::function<void(const ImageIdentity&)> image_captured;
  // All pieces of the image are in its object: it is to be published.
  std::function<void(Image&)> image_written;
  // What its publication waited for may be gone from here.
  std::function<void(Version&)> publication_due;
  // The version stays out of the store, as the job has gone on without it. Parts of it may be there.
  std::function<void(const Version&)> version_left_out;
  // The image is in the store, and its routed files are to be published.
  std::function<void(Image&)> files_due;
  // The version's levels are known by now, or its redundancy may go on for another reason.
  std::function<void(Version&)> protection_due;
  // More is known of one of its sets that are on their way to level NODE, or is made of it.
  std::function<void(const Version&)> set_changed;
  // The image is in the store.
  std::function<void(const Image&)> image_stored;
  // Images of the version are durable in another node's object, which is to be published there: they are shipped from now on.
  std::function<void(Version&, const std::vector<ImageEntry>&)> share_finished;
  // The rank's image is to be brought here from other nodes: this node has none, or a bad one. Answered once.
  std::function<void(Job&, const Generation&, uint32_t rank, const BringOptions&, std::function<void(Status)>)> image_missed;
  // This node has found the version complete in the store, or has made it so.
  std::function<void(const Generation&)> version_completed;
  // A folder or a file of this agent may have been removed, or cut short.
  std::function<void()> places_doubted;
};

class AgentCore {
 public:
  static Result<std::unique_ptr<AgentCore>> Create(AgentOptions options);

  const NodeSettings& settings() const { return options_.node; }
  const AgentOptions& options() const { return options_; }
  os::EventLoop& loop() { return *loop_; }
  const Clock& clock() const { return SystemClock(); }
  Workers& workers() { return *workers_; }
  // For what ranks wait for, or may wait for and takes little of a processor: publication, and pieces of few bytes. Ranks that
  // spin leave nothing to low priority.
  Workers& publishers() { return *publishers_; }
  // For pieces of any size.
  Workers& flushers() { return flush_is_awaited_ ? *publishers_ : *workers_; }
  // What all that writes to stores has in common. Thread safe.
  ByteRate& flush_rate() { return flush_rate_; }
  // A rank waits until what it has taken is in the store.
  bool is_flush_awaited() const { return flush_is_awaited_; }
  void SetFlushAwaited(bool is_awaited) { flush_is_awaited_ = is_awaited; }
  // For what a restart waits for. Its ranks often spin while they wait, and leave nothing to low priority.
  Workers& bringers() { return *bringers_; }
  // For what other nodes read here: apart from those who wait for other nodes.
  Workers& servers() { return *servers_; }
  PlacementPolicy& policy() { return *policy_; }
  ControlBlock& control() { return *ControlOf(control_); }
  const os::SharedMapping& control_mapping() const { return control_; }
  const os::EventFd& wake() const { return wake_; }
  AgentCounters& counters() { return counters_; }
  const std::string& boot_id() const { return boot_id_; }
  int64_t started_ns() const { return started_ns_; }
  std::string Path(const std::string& relative) const { return options_.node.run_folder + "/" + relative; }

  std::map<JobKey, std::unique_ptr<Job>>& jobs() { return jobs_; }
  Job* FindJob(const JobKey& key);
  Job* FindJob(const StoreId& store_id, const std::string& name) { return FindJob(JobKey(store_id, name)); }
  Job* FindJobOf(const Generation& generation) { return FindJob(JobKeyOf(generation)); }
  Version* FindVersion(const Generation& generation);
  // Version::FindWhole of that version; null: there is none.
  const Image* FindWhole(const Generation& generation, uint32_t rank);
  std::shared_ptr<StoreContext> MakeStore(const StoreId& id, const JobKeys& keys) const;
  SessionTable& sessions() { return sessions_; }
  AgentEvents& events() { return events_; }
  // Who answers what clients and tools ask.
  ClientRequests& requests() { return requests_; }

  // Something else to do before the loop may sleep.
  void Nudge() { nudged_ = true; }
  bool TakeNudge() { return std::exchange(nudged_, false); }
  // Another node needs this one: its idle time begins anew.
  void Touch() { busy_ns_ = clock().NowNs(); }
  int64_t busy_ns() const { return busy_ns_; }  // when it was last not idle
  // Runs `work` on a worker and `done` with its result here, unless the agent has gone by then.
  template <typename Work, typename Done>
  void Background(Work work, Done done) {
    Background(*workers_, std::move(work), std::move(done));
  }
  template <typename Work, typename Done>
  void Background(Workers& workers, Work work, Done done) {
    workers.Submit([this, work = std::move(work), done = std::move(done)]() mutable {
      auto result = work();
      loop_->Post([done = std::move(done), result = std::move(result)]() mutable { done(std::move(result)); });
    });
  }

  // Lets go of it on a worker, since its end may block. Null: nothing to do.
  template <typename Object>
  void LetGo(std::shared_ptr<Object>& object) {
    if (object != nullptr) workers_->Submit([last = std::move(object)] {});
    object = nullptr;
  }

  // ---- For the daemon ----
  // Whether nothing of Background runs or is queued any more, waiting at most `timeout` for each kind of worker.
  bool WaitIdle(Duration timeout) { return workers_->WaitIdle(timeout) && publishers_->WaitIdle(timeout); }
  Status OpenControl();
  void CloseControl() { control_ = os::SharedMapping(); }
  // Waits for work in hand, which uses the modules; what is queued is dropped.
  void StopWorkers();

 private:
  explicit AgentCore(AgentOptions options);

  AgentOptions options_;
  std::string boot_id_;
  int64_t started_ns_ = 0;
  AgentCounters counters_;
  ByteRate flush_rate_;
  os::EventFd wake_;
  std::unique_ptr<os::EventLoop> loop_;
  os::SharedMapping control_;
  std::unique_ptr<PlacementPolicy> policy_;
  std::map<JobKey, std::unique_ptr<Job>> jobs_;
  SessionTable sessions_;
  AgentEvents events_;
  ClientRequests requests_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Workers> publishers_;
  std::unique_ptr<Workers> bringers_;
  std::unique_ptr<Workers> servers_;
  bool flush_is_awaited_ = false;
  bool nudged_ = false;
  int64_t busy_ns_ = 0;
};

}  // namespace kedge
