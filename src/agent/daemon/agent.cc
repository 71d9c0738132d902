#include "agent/daemon/agent.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/bring/fetch.h"
#include "agent/bring/inventories.h"
#include "agent/bring/windows.h"
#include "agent/daemon/recovery.h"
#include "agent/door/server.h"
#include "agent/door/sessions.h"
#include "agent/door/status.h"
#include "agent/door/waiters.h"
#include "agent/flush/attempt_watch.h"
#include "agent/flush/flush.h"
#include "agent/flush/publish.h"
#include "agent/flush/still_stored.h"
#include "agent/flush/straight_parts.h"
#include "agent/images/images.h"
#include "agent/peers/measure_peers.h"
#include "agent/peers/peers.h"
#include "agent/protect/held_sets.h"
#include "agent/protect/protect.h"
#include "agent/schedule/calls.h"
#include "agent/schedule/local_level.h"
#include "agent/schedule/takings.h"
#include "agent/schedule/tuning.h"
#include "agent/schedule/turns.h"
#include "agent/space/assignment.h"
#include "agent/space/memory_ledger.h"
#include "agent/space/own_slots.h"
#include "agent/space/throughput.h"
#include "agent/space/tiers.h"
#include "base/log.h"
#include "os/files/files.h"
#include "os/machine/machine.h"
#include "os/sockets/text_server.h"
#include "session/connection.h"
#include "store/posix/posix_store.h"

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
// Beside the flushes: publication, retention, looks into the store.
constexpr uint32_t kOtherWorkers = 3;

}  // namespace

Agent::Agent(AgentOptions options)
    : options_(std::move(options)),
      boot_id_(os::BootId()),
      started_ns_(SystemClock().NowNs()),
      wake_(os::EventFd::FromDescriptor(os::UniqueFd())),
      stop_(os::EventFd::FromDescriptor(os::UniqueFd())) {}

Agent::~Agent() {
  // Work in hand uses the modules; what is queued is dropped. Who waits for another node waits no longer without a network.
  if (peers_ != nullptr) peers_->Close();
  if (protect_ != nullptr) protect_->Stop();
  if (memory_ != nullptr) memory_->Stop();
  workers_.reset();
}

Result<std::unique_ptr<Agent>> Agent::Start(AgentOptions options) {
  std::unique_ptr<Agent> agent(new Agent(std::move(options)));
  KEDGE_RETURN_IF_ERROR(agent->Prepare());
  return agent;
}

Status Agent::Prepare() {
  policy_ = MakePlacementPolicy(options_.node.placement_policy, clock());
  if (policy_ == nullptr) {
    return Status(Code::kInvalidArgument,
                  fmt::format("placement.policy = \"{}\": there is none of that name", options_.node.placement_policy));
  }
  KEDGE_ASSIGN_OR_RETURN(wake_, os::EventFd::Create());
  KEDGE_ASSIGN_OR_RETURN(stop_, os::EventFd::Create());
  KEDGE_ASSIGN_OR_RETURN(loop_, os::EventLoop::Create());
  throughput_ = std::make_unique<Throughput>(*this);
  memory_ = std::make_unique<MemoryLedger>(*this);
  tiers_ = std::make_unique<Tiers>(*this);
  images_ = std::make_unique<Images>(*this);
  local_level_ = std::make_unique<LocalLevel>(*this);
  own_slots_ = std::make_unique<OwnSlots>(*this);
  held_sets_ = std::make_unique<HeldSets>(*this);
  flush_ = std::make_unique<Flush>(*this);
  publish_ = std::make_unique<Publish>(*this);
  attempt_watch_ = std::make_unique<AttemptWatch>(*this);
  still_stored_ = std::make_unique<StillStored>(*this);
  straight_parts_ = std::make_unique<StraightParts>(*this);
  assignment_ = std::make_unique<Assignment>(*this);
  sessions_ = std::make_unique<Sessions>(*this);
  tuning_ = std::make_unique<Tuning>(*this);
  takings_ = std::make_unique<Takings>(*this);
  turns_ = std::make_unique<Turns>(*this);
  calls_ = std::make_unique<Calls>(*this);
  waiters_ = std::make_unique<Waiters>(*this);
  inventories_ = std::make_unique<Inventories>(*this);
  fetch_ = std::make_unique<Fetch>(*this);
  windows_ = std::make_unique<Windows>(*this);
  peers_ = std::make_unique<Peers>(*this);
  measure_peers_ = std::make_unique<MeasurePeers>(*this);
  protect_ = std::make_unique<Protect>(*this);
  server_ = std::make_unique<Server>(*this);
  workers_ = std::make_unique<Workers>(options_.node.flush_workers + kOtherWorkers);

  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs(), options_.node.run_folder, 0700, false));
  KEDGE_RETURN_IF_ERROR(server_->Listen());  // from here on the run folder is ours alone
  for (const char* folder : {"sessions", "records", "jobs", "tiers", "sets"}) {
    KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs(), Path(folder), 0700, false));
  }
  KEDGE_ASSIGN_OR_RETURN(control_, CreateControlBlock(os::OwnIdentity()));
  tiers_->OpenNode();
  RecoverState(*this);

  KEDGE_ASSIGN_OR_RETURN(auto wake_watch, loop_->Watch(wake_.descriptor(), os::EventLoop::Interest::kRead,
                                                       [this](os::Readiness) { wake_.Drain(); }));
  KEDGE_ASSIGN_OR_RETURN(auto stop_watch, loop_->Watch(stop_.descriptor(), os::EventLoop::Interest::kRead,
                                                       [this](os::Readiness) { leave_now_ = true; }));
  (void)wake_watch;
  (void)stop_watch;
  loop_->AddPeriodic(kHousekeepingPeriod, [this] { Housekeep(); });
  loop_->AddPeriodic(kPresencePeriod, [this] {
    CheckPlaces();
    memory_->Tick();
    tiers_->CloseUnused();
    sessions_->CheckOwners();
    attempt_watch_->Tick();
    still_stored_->Tick();
    straight_parts_->Tick();
    tuning_->Tick();
    throughput_->Tick();
    sessions_->ForgetIdleJobs();
  });
  metrics_ = std::make_unique<os::TextServer>(*loop_, [this] { return MetricsText(*this); });
  Status metrics = metrics_->ListenUnix(Path("metrics.sock"));
  if (metrics.ok() && options_.node.metrics_port != 0)
    metrics = metrics_->ListenLoopback(static_cast<uint16_t>(options_.node.metrics_port));
  if (!metrics.ok()) LogWarning("agent", "metrics are not served everywhere: {}", metrics.ToString());
  busy_ns_ = clock().NowNs();
  KEDGE_RETURN_IF_ERROR(server_->Serve());
  // The first use of a network takes up to half a second: a spare has it behind it when a job comes.
  if (options_.node.awaits_protection) loop_->Post([this] { peers_->OpenAhead(); });
  return Status::Ok();
}

std::shared_ptr<StoreContext> Agent::MakeStore(const StoreId& id, const JobKeys& keys) const {
  PosixStoreOptions options;
  options.path = keys.store_path;
  options.folder_mode = keys.store_mode;
  options.file_mode = keys.store_mode & 0666;
  options.direct = keys.store_direct;
  options.making = RootMaking::kNever;
  return std::make_shared<StoreContext>(MakePosixStore(os::SystemFileSystem(), options), id, options_.node.node);
}

Job* Agent::FindJob(const StoreId& store_id, const std::string& name) {
  auto found = jobs_.find(JobKey(store_id, name));
  return found == jobs_.end() ? nullptr : found->second.get();
}

void Agent::RequestStop() {
  stop_.Signal();
}

void Agent::Housekeep() {
  images_->SaveUnsaved();
  waiters_->Tick();
  protect_->Tick();
  assignment_->Pump();
  calls_->LookAtAll();
  memory_->LookAtSessions();
  tiers_->UpdateControl();
  ControlBlock& shown = control();
  // Written anew each time: whatever somebody scribbled there does not last.
  shown.magic = kControlMagic;
  shown.protocol = kProtocolVersion;
  throughput_->Publish();
  shown.flushes_in_flight.store(flush_->in_flight(), std::memory_order_relaxed);
  shown.flush_bytes_pending.store(flush_->queued_bytes(), std::memory_order_relaxed);
  if (!IsIdle()) busy_ns_ = clock().NowNs();
}

void Agent::CheckPlaces() {
  CheckReachable();
  tiers_->CheckPresent(/*make_anew=*/!unreachable_);
}

// Without its run folder no client and no tool finds this agent, and a client makes another one there. Who is attached goes to
// that one; this one stores what it holds, makes nothing anew, touches nothing at the paths that were its own, and leaves.
void Agent::CheckReachable() {
  if (unreachable_ || server_->IsReachable()) return;
  unreachable_ = true;
  LogError("agent", "the run folder {} was removed, or is another agent's by now: this agent finishes what it holds and leaves",
           options_.node.run_folder);
  sessions_->RestartAll();
}

bool Agent::IsIdle() const {
  if (sessions_->Any()) return false;
  const bool retaining =
      std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return !job.second->retention_running.empty(); });
  return waiters_->waiting() == 0 && flush_->in_flight() == 0 && !retaining && peers_->leases() == 0 && !images_->HasPending();
}

std::string Agent::Run() {
  int64_t message_ns = INT64_MIN / 2;
  for (;;) {
    bool worked = sessions_->DrainAll();
    flush_->Dispatch();
    const int64_t now_ns = clock().NowNs();
    if (worked) message_ns = now_ns;
    const bool dozing = now_ns - message_ns < kDozeAfterMessage.count();
    // Declared before the last look: a client that publishes after that look sees it and wakes us.
    control().agent_sleeping.store(dozing ? kAgentDozing : kAgentAsleep, std::memory_order_seq_cst);
    worked = sessions_->DrainAll() || std::exchange(nudged_, false) || worked;
    Status turned = loop_->RunOnce(worked             ? Duration::zero()
                                   : dozing           ? kDoze
                                   : sessions_->Any() ? kSleepWithSessions
                                                      : kSleepAlone);
    control().agent_sleeping.store(kAgentAwake, std::memory_order_relaxed);
    if (!turned.ok()) return "its event loop failed: " + turned.ToString();
    if (leave_now_) {
      const bool finished = workers_->WaitIdle(kStopPatience);
      // Answers of work that ended just now are taken, so that the successor need not do it again.
      (void)loop_->RunOnce(Duration::zero());
      throughput_->SaveNow();
      return finished ? "it was told to stop" : "it was told to stop; what its workers had in hand is left to a successor";
    }
    const bool finished = (unreachable_ || leave_when_drained_) && flush_->in_flight() == 0 && !images_->HasPending();
    if (unreachable_ && finished && waiters_->waiting() == 0) return "nobody can reach it: its run folder is gone";
    const bool drained = leave_when_drained_ && finished;
    const bool idle = !leave_when_drained_ && clock().NowNs() - busy_ns_ >= options_.node.idle_timeout.count() && IsIdle();
    if (!drained && !idle) continue;
    // Who has just come may want to attach; who only looks whether it is there does not keep it.
    server_->AcceptAll();
    if (idle && server_->peers() > 0) continue;
    const Status stored = still_stored_->ConfirmAll(kStopPatience);
    if (images_->HasPending()) continue;  // what was stored, and is not in the store any more, goes there again
    return (drained ? "everything is drained" : "it was idle") + CleanUp(stored);
  }
}

std::string Agent::CleanUp(const Status& stored) {
  (void)workers_->WaitIdle(kStopPatience);
  throughput_->SaveNow();
  if (!server_->IsReachable()) return "; its run folder is gone";
  images_->ReconsiderPending();
  if (images_->HasOnlyCopies()) {
    memory_->ReleaseFree();
    return "; versions that are on this node only are kept in " + options_.node.run_folder;
  }
  if (!stored.ok()) {
    memory_->ReleaseFree();
    return fmt::format("; its versions are kept in {}, because it cannot be told whether a store has them: {}",
                       options_.node.run_folder, stored.message());
  }
  if (sessions_->Any()) return "; clients are attached, so its files stay";
  metrics_.reset();
  peers_->Close();
  memory_->Stop();
  tiers_->RemoveAll();
  for (const char* name : {"sessions", "records", "jobs", "tiers", "sets", "pool", "address", "agent.log"}) {
    Status removed = os::RemoveTree(fs(), Path(name));
    if (!removed.ok()) LogWarning("agent", "{}", removed.ToString());
  }
  // The socket and its lock are the last to go; then the folder, unless somebody has put something there.
  control_ = os::SharedMapping();
  const std::string folder = options_.node.run_folder;
  server_.reset();
  (void)fs().Rmdir(folder);
  return "; everything is in the store, and nothing is left here";
}

}  // namespace kedge
