#include "agent/daemon/agent.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/daemon/agent_status.h"
#include "agent/daemon/recovery.h"
#include "agent/tables/run_folder.h"
#include "base/log.h"
#include "os/files/files.h"
#include "os/process/thread.h"
#include "session/connection.h"

namespace kedge {
namespace {

// The longest sleep: bounds what a lost wake-up costs.
constexpr Duration kSleepWithSessions = std::chrono::milliseconds(200);
constexpr Duration kSleepAlone = std::chrono::seconds(1);
// After a message the agent dozes for a while, so that frequent small checkpoints need no system call (AgentSleep).
constexpr Duration kDoze = std::chrono::milliseconds(1);
constexpr Duration kDozeAfterMessage = std::chrono::milliseconds(50);
constexpr Duration kHousekeepingPeriod = std::chrono::milliseconds(200);
constexpr Duration kPresencePeriod = std::chrono::seconds(1);
// On being told to stop: for what workers have in hand. What they leave, the successor does again.
constexpr Duration kStopPatience = std::chrono::seconds(2);
// So often agent.idle_timeout: how long an agent that nobody can reach waits for a store that is not there.
constexpr int64_t kIdleTimesInVain = 10;

}  // namespace

Agent::Agent(std::unique_ptr<AgentCore> core) : core_(std::move(core)), stop_(os::EventFd::FromDescriptor(os::UniqueFd())) {}

Agent::~Agent() {
  // Work in hand uses the modules; what is queued is dropped. Who waits for another node waits no longer without a network.
  peers_.Close();
  measure_member_.Stop();
  set_maker_.Stop();
  carrier_.Stop();
  memory_.Stop();
  core_->StopWorkers();
}

Result<std::unique_ptr<Agent>> Agent::Start(AgentOptions options) {
  KEDGE_ASSIGN_OR_RETURN(auto core, AgentCore::Create(std::move(options)));
  std::unique_ptr<Agent> agent(new Agent(std::move(core)));
  KEDGE_RETURN_IF_ERROR(agent->Prepare());
  return agent;
}

void Agent::Subscribe() {
  AgentEvents& events = core_->events();
  events.version_begun = [this](Version& version, const ScheduledLevels& due) { turns_.Schedule(version, due); };
  events.store_due = [this](Version& version) { shipper_.OnStoreDue(version); };
  events.writers_due = [this](Version& version) { shipper_.OnDue(version); };
  events.version_left_undecided = [this](Version& version, const ScheduledLevels& due) { turns_.LeaveUndecided(version, due); };
  events.image_captured = [this](const ImageIdentity& identity) { takings_.OnTaken(identity); };
  events.image_stored = [this](const Image& image) {
    tuning_.OnStored(image);
    carrier_.OnImageStored(image);
  };
  events.share_finished = [this](Version& version, const std::vector<ImageEntry>& entries) {
    shipper_.OnShareFinished(version, entries);
  };
  events.image_missed = [this](Job& job, const Generation& generation, uint32_t rank, const BringOptions& options,
                               std::function<void(Status)> done) {
    bringer_.Bring(job, generation, rank, options, std::move(done));
  };
  events.image_written = [this](Image& image) { publisher_.OnWritten(image); };
  events.publication_due = [this](Version& version) { publisher_.Consider(version); };
  // LocalRetention in the store has passed over its parts.
  events.version_left_out = [this](const Version& version) { publisher_.Retain(*version.job, version.generation.name); };
  events.files_due = [this](Image& image) { routed_publisher_.Publish(image); };
  events.protection_due = [this](Version& version) { protect_.Consider(version); };
  events.set_changed = [this](const Version& version) { protect_.AdvanceSoon(version); };
  events.pins_changed = [this](Version& version) { held_sets_.UpdatePins(version); };
  events.room_came = [this] { set_maker_.OnRoom(); };
  events.level_reached = [this](const Version& version, Level level) {
    if (level == Level::kNode) tuning_.OnProtected(version);
    publisher_.NoteReached(version);
  };
  events.version_changed = [this](const Generation& generation) {
    takings_.OnChanged(generation);
    waiters_.Check(generation);
  };
  events.version_completed = [this](const Generation& generation) { completions_.OnComplete(generation); };
  events.version_failed = [this](const Version& version, Level level, const Status& failure) {
    protect_again_.OnFailed(version, level);
    waiters_.OnFailure(version, level, failure);
  };
  events.version_gone = [this](Version& version) {
    waiters_.OnVersionGone(version);
    publisher_.OnVersionGone(version);
    set_exchange_.OnVersionGone(version);
    held_sets_.DropAll(version);
  };
  events.retention_begins = [this](Job& job, const std::string& name) { local_level_.Consider(job, name); };
  events.may_be_in_store = [this](const Version& version) { return straight_parts_.MayHave(version); };
  events.attempts_looked_at = [this] { waiters_.Tick(); };
  events.job_changed = [this](const Job& job) { sessions_.SaveJob(job); };
  events.job_restored = [this](Job& job, const Generation& generation, uint32_t rank) {
    local_level_.OnRestored(job, generation);
    protect_again_.OnRestored(job, generation, rank);
  };
  events.job_drained = [this](const Job& job) { node_level_.OnDrained(job); };
  events.members_changed = [this](const Job& job) {
    inventories_.Forget(job);
    stagers_.Seek(job);
  };
  events.tier_lost = [this](TierUnit* unit) { OnTierLost(unit); };
  events.places_doubted = [this] { CheckPlaces(); };
  core_->requests().On<StatusRequest>([this](const StatusRequest&) { return StatusReply{StatusJson(*this)}; });
  core_->requests().On<ShutdownRequest>([this](const ShutdownRequest& request) {
    Leave(request.when_drained);
    return Status::Ok();
  });
}

void Agent::OnTierLost(TierUnit* unit) {
  done_groups_.OnTierLost();
  held_sets_.DropLost();
  for (const auto& [key, job] : core_->jobs()) {
    for (const auto& [generation, version] : job->versions) retention_.RescueLost(*version);
    retention_.ReconsiderAll(*job);
  }
  sessions_.RestartSessionsOf(unit);
}

void Agent::Leave(bool when_drained) {
  (when_drained ? leave_when_drained_ : leave_now_) = true;
  if (when_drained) shipper_.HandOver();
}

Status Agent::Prepare() {
  Subscribe();
  const NodeSettings& settings = core_->settings();
  KEDGE_ASSIGN_OR_RETURN(stop_, os::EventFd::Create());
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs(), settings.run_folder, 0700, false));
  KEDGE_RETURN_IF_ERROR(server_.Listen());  // from here on the run folder is ours alone
  for (const char* folder : {"sessions", "records", "jobs", "tiers", "sets"}) {
    KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs(), core_->Path(folder), 0700, false));
  }
  KEDGE_RETURN_IF_ERROR(core_->OpenControl());
  tiers_.OpenNode();
  RecoverState(*this);

  KEDGE_ASSIGN_OR_RETURN(auto wake_watch, core_->loop().Watch(core_->wake().descriptor(), os::EventLoop::Interest::kRead,
                                                              [this](os::Readiness) { core_->wake().Drain(); }));
  KEDGE_ASSIGN_OR_RETURN(auto stop_watch, core_->loop().Watch(stop_.descriptor(), os::EventLoop::Interest::kRead,
                                                              [this](os::Readiness) { leave_now_ = true; }));
  (void)wake_watch;
  (void)stop_watch;
  core_->loop().AddPeriodic(kHousekeepingPeriod, [this] { Housekeep(); });
  core_->loop().AddPeriodic(kPresencePeriod, [this] {
    CheckPlaces();
    memory_.Tick();
    tiers_.CloseUnused();
    sessions_.CheckOwners();
    attempt_watch_.Tick();
    still_stored_.Tick();
    straight_parts_.Tick();
    tuning_.Tick();
    throughput_.Tick();
    sessions_.ForgetIdleJobs();
  });
  metrics_ = std::make_unique<os::TextServer>(core_->loop(), [this] { return MetricsText(*this); });
  Status metrics = metrics_->ListenUnix(core_->Path("metrics.sock"));
  if (metrics.ok() && settings.metrics_port != 0)
    metrics = metrics_->ListenLoopback(static_cast<uint16_t>(settings.metrics_port));
  if (!metrics.ok()) LogWarning("agent", "metrics are not served everywhere: {}", metrics.ToString());
  core_->Touch();
  KEDGE_RETURN_IF_ERROR(server_.Serve());
  // A spare has the first use of the network behind it when a job comes.
  if (settings.awaits_protection) peers_.OpenThen([] {});
  if (!settings.staging_folder.empty()) {
    staging_post_.Open([this](const Hello& hello, const Membership& members) { return sessions_.Enlist(hello, members); },
                       [this](const Status& failure) {
                         failure_ = failure;
                         leave_now_ = true;
                       });
  }
  return Status::Ok();
}

void Agent::Housekeep() {
  retention_.SaveUnsaved();
  waiters_.Tick();
  protect_.Tick();
  protect_again_.Tick();
  shipper_.Tick();
  carrier_.Tick();
  drain_watch_.Tick();
  assignment_.Pump();
  memory_.LookAtSessions();
  tiers_.UpdateControl();
  ControlBlock& shown = core_->control();
  // Written anew each time: whatever somebody scribbled there does not last.
  shown.magic = kControlMagic;
  shown.protocol = kProtocolVersion;
  throughput_.Publish();
  shown.flushes_in_flight.store(flush_.in_flight(), std::memory_order_relaxed);
  shown.flush_bytes_pending.store(flush_.queued_bytes(), std::memory_order_relaxed);
  if (!IsIdle()) core_->Touch();
}

void Agent::CheckPlaces() {
  CheckReachable();
  tiers_.CheckPresent(/*make_anew=*/!unreachable_);
}

// Without its run folder no client and no tool finds this agent, and a client makes another one there. Who is attached goes to
// that one; this one stores what it holds, makes nothing anew, touches nothing at the paths that were its own, and leaves.
void Agent::CheckReachable() {
  if (!unreachable_ || pending_.HasAnyWithStore()) hopeful_ns_ = core_->clock().NowNs();
  if (unreachable_ || server_.IsReachable()) return;
  unreachable_ = true;
  LogError("agent", "the run folder {} was removed, or is another agent's by now: this agent finishes what it holds and leaves",
           core_->settings().run_folder);
  sessions_.RestartAll();
}

// Who has deleted the run folder and the store has done with what is here. A store that is away comes back, however.
bool Agent::WaitsInVain() const {
  return unreachable_ && core_->clock().NowNs() - hopeful_ns_ >= kIdleTimesInVain * core_->settings().idle_timeout.count();
}

bool Agent::IsIdle() {
  // Who writes for others is there until it is told to leave.
  if (!core_->sessions().empty() || !core_->settings().staging_folder.empty()) return false;
  const bool retaining = std::any_of(core_->jobs().begin(), core_->jobs().end(),
                                     [](const auto& job) { return !job.second->retention_running.empty(); });
  return waiters_.waiting() == 0 && flush_.in_flight() == 0 && !retaining && peers_.service().leases() == 0 &&
         !carrier_.IsBusy() && !pending_.HasAny();
}

Result<std::string> Agent::Run() {
  std::string why = RunLoop();
  staging_post_.Close();
  KEDGE_RETURN_IF_ERROR(failure_);
  return why;
}

std::string Agent::RunLoop() {
  (void)os::SetThreadSlice(Workers::kAwaitedSlice, os::Slice::kOfThread);
  int64_t message_ns = INT64_MIN / 2;
  for (;;) {
    bool worked = sessions_.DrainAll();
    const int64_t now_ns = core_->clock().NowNs();
    if (worked) message_ns = now_ns;
    const bool dozing = now_ns - message_ns < kDozeAfterMessage.count();
    // Declared before the last look: a client that publishes after that look sees it and wakes us.
    core_->control().agent_sleeping.store(dozing ? kAgentDozing : kAgentAsleep, std::memory_order_seq_cst);
    worked = sessions_.DrainAll() || core_->TakeNudge() || worked;
    flush_.Dispatch();
    read_pauses_.Look();
    Status turned = core_->loop().RunOnce(worked                       ? Duration::zero()
                                          : dozing                     ? kDoze
                                          : !core_->sessions().empty() ? kSleepWithSessions
                                                                       : kSleepAlone);
    core_->control().agent_sleeping.store(kAgentAwake, std::memory_order_relaxed);
    if (!turned.ok()) return "its event loop failed: " + turned.ToString();
    if (leave_now_) {
      const bool finished = core_->WaitIdle(kStopPatience);
      // Answers of work that ended just now are taken, so that the successor need not do it again.
      (void)core_->loop().RunOnce(Duration::zero());
      throughput_.SaveNow();
      return finished ? "it was told to stop" : "it was told to stop; what its workers had in hand is left to a successor";
    }
    const bool may_leave = (unreachable_ || leave_when_drained_) && flush_.in_flight() == 0;
    const bool has_pending = may_leave && pending_.HasAny();
    const bool finished = may_leave && !has_pending && !carrier_.IsBusy();
    if (unreachable_ && finished && waiters_.waiting() == 0) return "nobody can reach it: its run folder is gone";
    if (has_pending && WaitsInVain()) {
      return "nobody can reach it, its store has not come back, and with it goes " + pending_.Name(nullptr, Level::kLast);
    }
    const bool drained = leave_when_drained_ && finished;
    const bool idle =
        !leave_when_drained_ && core_->clock().NowNs() - core_->busy_ns() >= core_->settings().idle_timeout.count() && IsIdle();
    if (!drained && !idle) continue;
    // Who has just come may want to attach; who only looks whether it is there does not keep it.
    server_.AcceptAll();
    if (idle && server_.clients() > 0) continue;
    const Status stored = still_stored_.ConfirmAll(kStopPatience);
    if (pending_.HasAny()) continue;  // what was stored, and is not in the store any more, goes there again
    return (drained ? "everything is drained" : "it was idle") + CleanUp(stored);
  }
}

std::string Agent::CleanUp(const Status& stored) {
  (void)core_->WaitIdle(kStopPatience);
  throughput_.SaveNow();
  if (!server_.IsReachable()) return "; its run folder is gone";
  retention_.ReconsiderPending();
  if (pending_.HasOnlyCopies()) {
    memory_.ReleaseFree();
    return "; versions that are on this node only are kept in " + core_->settings().run_folder;
  }
  if (!stored.ok()) {
    memory_.ReleaseFree();
    return fmt::format("; its versions are kept in {}, because it cannot be told whether a store has them: {}",
                       core_->settings().run_folder, stored.message());
  }
  if (!core_->sessions().empty()) return "; clients are attached, so its files stay";
  const uint32_t handed_over = pending_.HandedOver();
  metrics_.reset();
  peers_.Close();
  memory_.Stop();
  tiers_.RemoveAll();
  for (const char* name : kRunFolderEntries) {
    Status removed = os::RemoveTree(fs(), core_->Path(name));
    if (!removed.ok()) LogWarning("agent", "{}", removed.ToString());
  }
  // The socket and its lock are the last to go; then the folder, unless somebody has put something there. Who waits for that
  // hears it by the end of the connection.
  core_->CloseControl();
  server_.StopListening();
  (void)fs().Rmdir(core_->settings().run_folder);
  server_.Disconnect();
  return handed_over == 0 ? "; everything is in the store, and nothing is left here"
                          : fmt::format("; staging agents hold {} images, which they bring to the store", handed_over);
}

}  // namespace kedge
