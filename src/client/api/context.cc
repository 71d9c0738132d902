// See context.h.
#include "client/api/context.h"
#include "client/regions/sized_struct.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "base/log.h"
#include "client/init/newest_stored.h"
#include "client/init/start.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/process/launch_note.h"
#include "session/own_folder.h"
#include "session/process_folder.h"
#include "store/attempts.h"

namespace kedge::client {
namespace {

constexpr Duration kDrainRetry = std::chrono::milliseconds(10);

Result<Collective> MakeCollective(const kedge_bootstrap* given) {
  if (given == nullptr) return Collective();
  KEDGE_ASSIGN_OR_RETURN(const kedge_bootstrap bootstrap, CopySized(*given, "kedge_bootstrap"));
  // From here on `user` is released, also when the rest of it makes no sense.
  Collective collective(bootstrap);
  if (bootstrap.ranks < 1 || bootstrap.rank < 0 || bootstrap.rank >= bootstrap.ranks) {
    return Status(Code::kInvalidArgument, fmt::format("bootstrap: rank {} of {} ranks", bootstrap.rank, bootstrap.ranks));
  }
  if (bootstrap.ranks > 1 && (bootstrap.allgather == nullptr || bootstrap.broadcast == nullptr || bootstrap.barrier == nullptr)) {
    return Status(Code::kInvalidArgument, "bootstrap: with several ranks allgather, broadcast and barrier must all be set");
  }
  return collective;
}

// Whether an init that ended so would end in the same way once more.
bool IsForGood(Code code) {
  switch (code) {
    case Code::kFailedPrecondition:
    case Code::kInvalidArgument:
    case Code::kMismatch:
    case Code::kPermission:
    case Code::kUnsupported: return true;
    default: return false;
  }
}

}  // namespace

Result<std::unique_ptr<Context>> Context::Create(const kedge_options* options, const kedge_bootstrap* bootstrap) {
  KEDGE_ASSIGN_OR_RETURN(Collective collective, MakeCollective(bootstrap));
  KEDGE_ASSIGN_OR_RETURN(os::ForkGuard guard, os::ForkGuard::Create());
  std::unique_ptr<Context> context(new Context(std::move(guard)));
  Core& core = context->core;
  core.collective = std::move(collective);
  const Status settings = core.collective.Agree(ReadSettings(options, &core));
  const Status begun = settings.ok() ? context->Start() : settings;
  if (begun.ok()) {
    os::TakeBackRefusal();
    os::NoteJob(core.job.job, core.attempt);
    return context;
  }
  if (!settings.ok() || IsForGood(begun.code())) os::LeaveRefusal(begun);
  return begun;
}

Status Context::Start() {
  core.statistics.struct_size = sizeof core.statistics;
  core.heap.Configure(core.job.heap);
  auto agent = core.job.synchronous ? Result<std::unique_ptr<Connection>>(Status(Code::kUnavailable, "job.mode is sync"))
                                    : ConnectToAgent(core);
  KEDGE_RETURN_IF_ERROR(AgreeOnAttempt(&core, &agent));
  if (Status made = MakeParts(); !made.ok()) {
    EndOwnAttempt();
    return made;
  }
  Status status = session->Start(std::move(agent));
  if (core.joins_nodes) {
    status = core.collective.Agree(status);
    if (status.ok()) status = ShareMembers();
  } else if (status.ok() && core.job.keys.Protects()) {
    status = UnlessRequired(Status(Code::kFailedPrecondition, "job.mode is sync, and protect.scheme needs agents"));
  }
  if (status.ok()) status = watcher_->Start();
  status = core.collective.Agree(status);
  if (status.ok()) status = pace->Start();
  if (!status.ok()) (void)Finalize(/*drain=*/false);
  return status;
}

// Collective. Who is on which node, to all agents.
Status Context::ShareMembers() {
  const auto& attached = session->current();
  auto members = GatherMembers(core, attached ? &attached->attachment.welcome : nullptr);
  KEDGE_RETURN_IF_ERROR(members.status());
  return UnlessRequired(core.collective.Agree(session->SetMembers(std::move(*members))));
}

// Nodes that cannot protect each other are an error, or a warning where the configuration allows it; without knowing each other
// they go by their own clocks where an interval says which versions go to the store.
Status Context::UnlessRequired(Status status) const {
  const bool protects = core.job.keys.Protects();
  const bool is_absence = status.code() == Code::kFailedPrecondition || status.code() == Code::kUnavailable;
  const bool is_forgiven = !protects || (is_absence && !core.job.keys.protect_required);
  if (status.ok() || !is_forgiven) return status;
  if (core.rank() != 0) return Status::Ok();
  if (protects) {
    LogWarning("client", "versions do not survive the loss of a node: {}", status.message());
  } else if (core.job.keys.HasStoreInterval()) {
    LogWarning("client", "each node's clock says which versions go to the store: {}", status.message());
  } else {
    LogInfo("client", "no node hears which versions are whole on the others: {}", status.message());
  }
  return Status::Ok();
}

Status Context::MakeParts() {
  KEDGE_ASSIGN_OR_RETURN(auto stored, GatherNewestStored(core));
  // On tmpfs, or on the job's own local tier.
  const std::string& scratch = core.job.keys.scratch;
  const std::string files = RoutedFilesFolder(scratch.empty() ? core.node.run_folder : OwnFolder(scratch, core.node.node));
  ledger = std::make_unique<Ledger>(core.catalog->id(), core.job.job, core.attempt, std::move(stored));
  session = std::make_unique<AgentSession>(&core, ledger.get());
  checkpointer = std::make_unique<Checkpointer>(&core, ledger.get(), session.get(), files);
  restarter = std::make_unique<Restarter>(&core, ledger.get(), session.get(), files);
  levels = std::make_unique<Levels>(&core, ledger.get(), session.get());
  pace = std::make_unique<Pace>(&core, session.get());
  watcher_ = std::make_unique<Watcher>(&core, session.get());
  RemoveFoldersOfTheDead(os::PrivateFileSystem(), files);
  return Status::Ok();
}

Status Context::Drain() {
  const Deadline deadline(SystemClock(), core.job.wait_timeout);
  for (;;) {
    // The newest version may have gone to the store without an agent, and older ones lie with one that is gone.
    if (!levels->Pending().ok()) session->AwaitAgent();
    const bool had_agent = session->attached();
    const auto reply = levels->Drain(deadline.Remaining());
    if (reply.ok()) return reply->failure.ok() ? levels->WhetherLost() : reply->failure;
    // An agent that died meanwhile has a successor, which goes on.
    if (!had_agent || deadline.Passed()) return reply.status();
    std::this_thread::sleep_for(kDrainRetry);
  }
}

// Rank 0's part: the job is free for the next attempt.
void Context::EndOwnAttempt() {
  if (core.rank() != 0 || core.superseded.load()) return;
  Status ended;
  LeaseWatch watch;
  if (core.attempt_unrecorded.load()) ended = RegisterAttempt(*core.catalog, core.attempt_record, OwnRequest(core), &watch);
  if (!ended.ok()) {
    LogWarning("client", "job '{}': attempt {} ends without the store; `kedge drain` carries there what its nodes hold: {}",
               core.job.job, core.attempt, ended.message());
  } else if (ended = EndAttempt(*core.catalog, core.job.job, core.attempt); !ended.ok()) {
    LogWarning("client", "the lease of job '{}' runs out by itself: {}", core.job.job, ended.message());
  }
}

Status Context::Finalize(bool drain) {
  Status status;
  {
    std::unique_lock lock(core.mutex);
    KEDGE_RETURN_IF_ERROR(core.AwaitCapture(lock, Deadline(SystemClock(), core.job.wait_timeout)));
    checkpointer->Abandon();
    restarter->Abandon();
    if (drain) status = core.Heard(Drain());
    session->Pump();
    checkpointer->CheckAgreement();
    while (const auto failure = session->TakeFailure()) {
      // A wait may have made it good since, for which it was tried again.
      const auto level = levels->Test(failure->name, failure->version);
      if (level.ok() && *level >= Level::kBuffer) continue;
      status = failure->status.WithContext(fmt::format("the flush of '{}' version {} failed", failure->name, failure->version));
      break;
    }
    session->Goodbye();
    // Of what went to the store without an agent nobody tells the other ranks than the first.
    if (status.ok() && drain && core.statistics.checkpoints_inline > 0) {
      status = core.Heard(AwaitCheckNotTakenOver([this] { return Result<Catalog>(*core.catalog); }, core.job.job, core.attempt,
                                                 core.job.wait_timeout));
    }
    if (status.ok()) status = core.CheckNotSuperseded();
  }
  watcher_->Stop();
  EndOwnAttempt();
  return status;
}

Context::~Context() {
  if (watcher_) watcher_->Stop();
}

}  // namespace kedge::client
