#include "agent/door/sessions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "agent/door/server.h"
#include "agent/images/arrivals.h"
#include "agent/images/local_retention.h"
#include "agent/images/open_images.h"
#include "agent/peers/peers.h"
#include "agent/protect/layouts.h"
#include "agent/schedule/halts.h"
#include "agent/schedule/tuning.h"
#include "agent/space/assignment.h"
#include "agent/space/throughput.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/run_folder.h"
#include "agent/tables/session.h"
#include "base/log.h"
#include "format/store_records.h"
#include "os/files/files.h"
#include "session/connection.h"
#include "store/places/store_path.h"

namespace kedge {
namespace {

// Entries taken from one mailbox before the next one has its turn.
constexpr int kEntriesInTurn = 256;

}  // namespace

Sessions::Sessions(AgentCore& core, Arrivals& arrivals, Assignment& assignment, Carrier& carrier, FoundImages& found_images,
                   Layouts& layouts, OpenImages& open_images, Peers& peers, LocalRetention& retention, Server& server,
                   Throughput& throughput, Tiers& tiers, Tuning& tuning)
    : core_(core),
      arrivals_(arrivals),
      assignment_(assignment),
      carrier_(carrier),
      found_images_(found_images),
      layouts_(layouts),
      open_images_(open_images),
      peers_(peers),
      retention_(retention),
      server_(server),
      throughput_(throughput),
      tiers_(tiers),
      tuning_(tuning) {
  ClientRequests& requests = core.requests();
  requests.On<KnownJobsRequest>(std::bind_front(&Sessions::KnownJobs, this));
  requests.OnSession<MembersRequest>(
      [this](Session& session, const MembersRequest& request) { return SetMembers(session, request.members); });
  requests.OnSession<RestoredRequest>(std::bind_front(&Sessions::NoteRestored, this));
  requests.OnSession<GoodbyeRequest>([this](Session& session, const GoodbyeRequest&) {
    End(session, "goodbye");
    return Status::Ok();
  });
}

Sessions::~Sessions() {
  for (Session* session : core_.sessions().all()) {
    if (session->pidfd_watch != 0) core_.loop().Unwatch(session->pidfd_watch);
  }
}

std::string Sessions::MailboxPath(uint32_t id) const {
  return core_.Path(fmt::format("sessions/{}", id));
}

Status Sessions::CheckNodeKeys(const Hello& hello) const {
  for (const auto& [key, wanted] : hello.node_keys) {
    const auto& mine = core_.options().node_keys;
    auto found = std::find_if(mine.begin(), mine.end(), [&, &name = key](const auto& entry) { return entry.first == name; });
    const std::string running = found == mine.end() ? "the default" : found->second;
    if (running != wanted) {
      return Status(Code::kMismatch,
                    fmt::format("{} = {} is asked for, but the agent of node {} runs with {}; leave the key out, or let that "
                                "agent end (kedge agent --stop) first",
                                key, wanted, core_.settings().node, running));
    }
  }
  return Status::Ok();
}

Job& Sessions::JobFor(const Hello& hello) {
  auto& slot = core_.jobs()[JobKey(hello.store_id, hello.job)];
  const bool is_new = slot == nullptr;
  if (is_new) slot = std::make_unique<Job>();
  Job& job = *slot;
  const bool same_store =
      !is_new && job.hello.keys.store_path == hello.keys.store_path && job.hello.keys.store_direct == hello.keys.store_direct;
  job.store_id = hello.store_id;
  job.name = hello.job;
  const bool newer_attempt = !is_new && hello.attempt > job.hello.attempt;
  if (is_new || hello.attempt >= job.hello.attempt) job.hello = hello;
  job.hello.session_id = 0;
  job.hello.held_slots.clear();
  if (!same_store) job.store = core_.MakeStore(job.store_id, job.hello.keys);
  if (const auto record = DecodeAttemptRecord(AsBytes(hello.unrecorded)); record.ok() && record->attempt == hello.attempt) {
    job.store->Await(*record);
  }
  if (is_new) throughput_.LoadStore(job.store_id);
  if (newer_attempt) {
    job.halt = Halt();
    job.told_to_exit = false;
    job.disagreements.clear();
    retention_.ReconsiderAll(job);
  }
  return job;
}

Result<Session*> Sessions::Create(const Hello& hello, const os::ProcessIdentity& owner) {
  KEDGE_ASSIGN_OR_RETURN(std::vector<TierUnit*> tiers, tiers_.ForJob(hello.keys));
  do {
    last_id_ = last_id_ >= kAgentSlotOwner - 1 ? 1 : last_id_ + 1;
  } while (core_.sessions().Find(last_id_) != nullptr);
  auto session = std::make_unique<Session>();
  session->id = last_id_;
  session->hello = hello;
  session->hello.session_id = last_id_;
  session->owner = owner;
  session->tiers = std::move(tiers);
  // Hello first: a mailbox without one is not taken for a session.
  KEDGE_RETURN_IF_ERROR(SaveSession(*session));
  KEDGE_RETURN_IF_ERROR(os::UnlinkIfPresent(fs(), MailboxPath(last_id_)));
  KEDGE_ASSIGN_OR_RETURN(session->mailbox, CreateMailbox(MailboxPath(last_id_), last_id_, owner));
  session->from_client = ClientRingConsumer(&session->box().from_client);
  session->to_client = AgentRingProducer(&session->box().from_agent);
  session->job = &JobFor(hello);
  Session* created = session.get();
  core_.sessions().Add(std::move(session));
  WatchOwner(*created);
  return created;
}

void Sessions::WatchOwner(Session& session) {
  auto pidfd = os::OpenPidfd(session.owner);
  if (!pidfd.ok()) {
    if (pidfd.status().code() == Code::kNotFound) core_.loop().Post([this, id = session.id] { OnOwnerDeath(id); });
    return;  // an old kernel: CheckOwners
  }
  session.pidfd = std::move(*pidfd);
  auto watch = core_.loop().Watch(session.pidfd.get(), os::EventLoop::Interest::kRead,
                                  [this, id = session.id](os::Readiness) { OnOwnerDeath(id); });
  if (watch.ok()) session.pidfd_watch = *watch;
}

void Sessions::OnOwnerDeath(uint32_t session_id) {
  Session* session = core_.sessions().Find(session_id);
  if (session != nullptr) End(*session, "its process ended");
}

void Sessions::CheckOwners() {
  for (Session* session : core_.sessions().all()) {
    if (session->pidfd_watch == 0 && !os::IsAlive(session->owner)) End(*session, "its process ended");
  }
}

Status Sessions::AttachAgain(Session& session, const Hello& hello) {
  // Everything that was handed over is taken; requests of before are forgotten.
  while (Drain(session, /*may_wait=*/true)) {
  }
  if (core_.sessions().Find(hello.session_id) != &session || session.ended) return Status(Code::kNotFound, "the session broke");
  assignment_.Drop(session);
  session.unsent.clear();
  std::set<SlotId> held;
  for (const HeldSlot& slot : hello.held_slots) {
    TierUnit* unit = slot.tier < session.tiers.size() ? session.tiers[slot.tier] : nullptr;
    const bool is_its_own = unit != nullptr && slot.slot < unit->info().slots &&
                            unit->space->Get(slot.slot).owner == session.id &&
                            unit->space->Get(slot.slot).generation == slot.slot_generation;
    // Given to others when its chunk had been flushed: into an object that is gone with the former agent or its connection.
    if (!is_its_own)
      return Status(Code::kNotFound, fmt::format("slot {} of tier {} is not its own any more", slot.slot, slot.tier));
    held.insert(SlotId{unit->id, slot.slot});
    if (slot.is_full_chunk) throughput_.OnHeld(session, SlotId{unit->id, slot.slot});
  }
  for (TierUnit* unit : session.tiers) {
    for (uint32_t slot : unit->space->SlotsOf(session.id)) {
      if (held.contains(SlotId{unit->id, slot})) continue;
      (void)throughput_.OnReturned(session, SlotId{unit->id, slot});
      unit->space->Return(slot, unit->space->Get(slot).generation, session.id);
    }
  }
  session.NoteSerial(hello.last_image_serial);
  session.hello = hello;
  core_.sessions().PublishCounts(session);
  return SaveSession(session);
}

Result<Sessions::Admission> Sessions::Admit(Session& session, bool attached_again) {
  Admission admission;
  admission.session_id = session.id;
  Welcome& welcome = admission.welcome;
  welcome.session_id = session.id;
  welcome.build = BuildName();
  welcome.attached_again = attached_again;
  welcome.node = core_.settings().node;
  welcome.failure_domain = core_.settings().failure_domain;
  if (session.hello.NeedsPeers()) welcome.address = peers_.address();
  welcome.chunk_bytes = core_.settings().chunk_bytes.value_or(kChunkBytesDefault);
  KEDGE_ASSIGN_OR_RETURN(os::UniqueFd mailbox, os::DuplicateDescriptor(session.mailbox.descriptor()));
  KEDGE_ASSIGN_OR_RETURN(os::UniqueFd wake, os::DuplicateDescriptor(core_.wake().descriptor()));
  KEDGE_ASSIGN_OR_RETURN(os::UniqueFd control, os::DuplicateDescriptor(core_.control_mapping().descriptor()));
  admission.descriptors.push_back(std::move(mailbox));
  admission.descriptors.push_back(std::move(wake));
  admission.descriptors.push_back(std::move(control));
  for (const TierUnit* unit : session.tiers) {
    const TierInfo& info = unit->info();
    welcome.tiers.push_back(info);
    welcome.chunk_bytes = std::min(welcome.chunk_bytes, info.slot_bytes);
    welcome.capacity_bytes += unit->capacity_bytes();
    if (info.kind != TierKind::kMemory) continue;
    KEDGE_ASSIGN_OR_RETURN(os::UniqueFd pool, os::DuplicateDescriptor(unit->tier->descriptor()));
    admission.descriptors.push_back(std::move(pool));
  }
  const auto of_attempt = core_.sessions().all();
  welcome.speaks_for_node = std::none_of(of_attempt.begin(), of_attempt.end(), [&](const Session* other) {
    return other->job == session.job && other->hello.attempt == session.hello.attempt && other->id < session.id;
  });
  for (const auto& [name, why] : tiers_.unusable()) {
    if (welcome.tiers.empty()) welcome.no_tiers += fmt::format("{}tier {}: {}", welcome.no_tiers.empty() ? "" : "; ", name, why);
  }
  welcome.piece_bytes = std::min(core_.settings().piece_bytes, welcome.chunk_bytes);
  return admission;
}

Result<Sessions::Admission> Sessions::Attach(const Hello& hello, int32_t process_id, uint64_t connection) {
  KEDGE_RETURN_IF_ERROR(ValidateName(hello.job, "job name"));
  const bool sane = hello.ranks >= 1 && hello.ranks <= kRanksMax && hello.rank < hello.ranks && hello.ranks_on_node >= 1 &&
                    hello.ranks_on_node <= std::min(hello.ranks, kRanksOnNodeMax) && hello.attempt >= 1 &&
                    !hello.store_id.IsZero() && IsResolvedStorePath(hello.keys.store_path) &&
                    (hello.keys.scratch.empty() || hello.keys.scratch.starts_with("/"));
  if (!sane) {
    return Status(Code::kInvalidArgument,
                  fmt::format("hello of job {}: rank {} of {} ({} on the node), attempt {}, store \"{}\": out of bounds",
                              hello.job, hello.rank, hello.ranks, hello.ranks_on_node, hello.attempt, hello.keys.store_path));
  }
  KEDGE_RETURN_IF_ERROR(CheckNodeKeys(hello));
  if (const Job* job = core_.FindJob(hello.store_id, hello.job); job != nullptr && hello.attempt < job->hello.attempt) {
    return Status(Code::kMismatch,
                  fmt::format("job {}: attempt {} is over; attempt {} has begun", hello.job, hello.attempt, job->hello.attempt));
  }
  KEDGE_ASSIGN_OR_RETURN(os::ProcessIdentity owner, os::IdentityOf(process_id));
  // Nobody is given a pool that somebody has deleted.
  core_.events().places_doubted();
  Session* session = core_.sessions().Find(hello.session_id);
  bool attached_again = false;
  if (session != nullptr && session->owner == owner && session->hello.job == hello.job &&
      session->hello.store_id == hello.store_id && session->hello.rank == hello.rank) {
    if (session->connection != 0) return Status(Code::kBusy, "the session is attached through another connection");
    if (!session->must_restart && AttachAgain(*session, hello).ok()) {
      session->job = &JobFor(hello);
      attached_again = true;
    } else {
      if (core_.sessions().Find(hello.session_id) != nullptr) End(*session, "it begins anew");
      session = nullptr;
    }
  } else {
    session = nullptr;
  }
  if (session == nullptr) {
    KEDGE_ASSIGN_OR_RETURN(session, Create(hello, owner));
  }
  session->connection = connection;
  SaveJob(*session->job);
  LogInfo("agent", "session {}: job {} rank {} of {}, attempt {}, process {}{}", session->id, hello.job, hello.rank, hello.ranks,
          hello.attempt, process_id, attached_again ? ", attached again" : "");
  tuning_.OnAttached(*session);
  Halts::OnAttached(*session);
  auto admission = Admit(*session, attached_again);
  assignment_.Pump();
  return admission;
}

KnownJobsReply Sessions::KnownJobs(const KnownJobsRequest& request) const {
  KnownJobsReply reply;
  for (const auto& [key, job] : core_.jobs()) {
    if (job->name != request.job || job->hello.keys.store_path != request.store_path) continue;
    KnownJob& known = reply.jobs.emplace_back(
        KnownJob{job->store_id, job->hello.attempt, 0, job->KnowsVersions(), job->hello.unrecorded, job->restored});
    for (const Session* session : core_.sessions().all()) {
      known.live_ranks += session->job == job.get() && os::IsAlive(session->owner) ? 1 : 0;
    }
  }
  return reply;
}

Status Sessions::CheckMembers(const Session& session, const Membership& members) const {
  const Job& job = *session.job;
  std::set<std::string> names;
  std::set<uint32_t> ranks;
  bool sane = members.attempt == session.hello.attempt && members.ranks == session.hello.ranks && !members.secret.empty() &&
              members.secret.size() <= kSecretBytesMax && !members.nodes.empty() && members.nodes.size() <= kNodesMax;
  for (const JobNode& node : members.nodes) {
    sane = sane && !node.name.empty() && names.insert(node.name).second;
    for (const uint32_t rank : node.ranks) sane = sane && rank < members.ranks && ranks.insert(rank).second;
  }
  if (!sane || ranks.size() != members.ranks) {
    return Status(Code::kInvalidArgument,
                  fmt::format("job {}: the list of {} nodes is not one of attempt {} with {} ranks", job.name,
                              members.nodes.size(), session.hello.attempt, session.hello.ranks));
  }
  if (!names.contains(core_.settings().node)) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("job {}: the agent in {} serves node {}, which is none of the job's nodes ({}): each node needs a run "
                    "folder of its own; %n in node.run_folder stands for the node's name",
                    job.name, core_.settings().run_folder, core_.settings().node, fmt::join(names, ", ")));
  }
  if (members.attempt < job.members.attempt) {
    return Status(Code::kMismatch, fmt::format("job {}: attempt {} has begun", job.name, job.members.attempt));
  }
  return Status::Ok();
}

Status Sessions::NoteRestored(const Session& session, const RestoredRequest& request) {
  Job& job = *session.job;
  const RestoredRecord& record = request.record;
  if (record.origin.store_id != job.store_id || record.origin.job != job.name || record.attempt != session.hello.attempt) {
    return Status(Code::kInvalidArgument, fmt::format("job {}: attempt {} has not restarted from {}", job.name,
                                                      session.hello.attempt, record.origin.ToString()));
  }
  if (job.LearnRestored(record)) {  // not yet by another rank of this node
    if (!request.noted) job.store->AwaitRestored(record);
    SaveJob(job);
  }
  core_.events().job_restored(job, record.origin, session.hello.rank);
  return Status::Ok();
}

Status Sessions::SetMembers(Session& session, const Membership& members) {
  Job& job = *session.job;
  KEDGE_RETURN_IF_ERROR(CheckMembers(session, members));
  // The node's ranks all say the same.
  if (members == job.members && (job.layout != nullptr || !job.hello.keys.Protects())) return Status::Ok();
  if (members.attempt != job.members.attempt) peers_.Invite(job, members);
  return ChangeMembers(job, members);
}

Status Sessions::Enlist(const Hello& hello, const Membership& members) {
  const Job* const known = core_.FindJob(hello.store_id, hello.job);
  if (known != nullptr && members.attempt < known->members.attempt) {
    return Status(Code::kMismatch, fmt::format("job {}: attempt {} has begun", hello.job, known->members.attempt));
  }
  Job& job = JobFor(hello);
  job.left_ns = core_.clock().NowNs();
  job.is_enlisted = true;
  if (members == job.members) return Status::Ok();
  LogInfo("agent", "job {}: this node writes for nodes of attempt {}", job.name, members.attempt);
  job.members = members;
  SaveJob(job);
  return peers_.Join(job);
}

Status Sessions::ChangeMembers(Job& job, const Membership& members) {
  if (members.attempt != job.members.attempt) {
    for (auto& [generation, version] : job.versions) version->restored = false;
  }
  job.members = members;
  SaveJob(job);
  Status joined = layouts_.OnMembers(job);
  retention_.ReconsiderAll(job);
  return joined;
}

void Sessions::Detach(uint32_t session_id) {
  Session* session = core_.sessions().Find(session_id);
  if (session == nullptr) return;
  session->connection = 0;
  open_images_.CloseAll(*session);
  assignment_.Drop(*session);
}

void Sessions::FreeSlots(Session& session) {
  for (TierUnit* unit : session.tiers) {
    for (uint32_t slot : unit->space->SlotsOf(session.id)) {
      unit->space->Return(slot, unit->space->Get(slot).generation, session.id);
    }
  }
  throughput_.DropAll(session);
}

void Sessions::End(Session& session, const char* why) {
  if (session.ended) return;
  while (Drain(session, /*may_wait=*/true)) {
  }
  tuning_.Collect(session);
  Halts::OnEnd(session);
  session.ended = true;
  LogInfo("agent", "session {} of job {} rank {} ends: {}", session.id, session.hello.job, session.hello.rank, why);
  assignment_.Drop(session);
  arrivals_.DropUnended(session);
  open_images_.CloseAll(session);
  FreeSlots(session);
  if (session.pidfd_watch != 0) core_.loop().Unwatch(session.pidfd_watch);
  RemoveFiles(session.id);
  if (session.connection != 0) server_.ForgetSession(session.connection);
  Job& job = *session.job;
  job.left_ns = core_.clock().NowNs();
  core_.sessions().Remove(session.id);
  retention_.ReconsiderAll(job);
  assignment_.Pump();
  core_.Nudge();
}

void Sessions::Restart(Session& session) {
  session.must_restart = true;
  if (session.connection != 0) server_.Disconnect(session.connection);
}

void Sessions::RestartSessionsOf(const TierUnit* unit) {
  for (Session* session : core_.sessions().all()) {
    if (std::find(session->tiers.begin(), session->tiers.end(), unit) != session->tiers.end()) Restart(*session);
  }
}

void Sessions::RestartAll() {
  for (Session* session : core_.sessions().all()) Restart(*session);
}

bool Sessions::DrainAll(bool may_wait) {
  bool any = false;
  for (const uint32_t id : core_.sessions().ids()) {
    Session* session = core_.sessions().Find(id);
    any = (session != nullptr && Drain(*session, may_wait)) || any;
  }
  return any;
}

bool Sessions::Drain(Session& session, bool may_wait) {
  if (session.ended || session.broken) return false;
  while (!session.unsent.empty() && session.to_client.TryPush(session.unsent.front())) session.unsent.pop_front();
  const uint32_t id = session.id;
  bool any = false;
  for (int i = 0; i < kEntriesInTurn; ++i) {
    ClientMessage message;
    const RingPeek peek = session.from_client.Peek(&message);
    if (peek == RingPeek::kBroken) {
      ++core_.counters().sessions_broken;
      LogError("agent", "the mailbox of session {} (job {}, rank {}) makes no sense any more", id, session.hello.job,
               session.hello.rank);
      // Nothing more is read from it. Its slots stay its own while its process lives; it may come back as a new one.
      session.broken = session.must_restart = true;
      if (session.connection != 0) server_.Disconnect(session.connection);
      return false;
    }
    if (peek == RingPeek::kEmpty) break;
    if (message.kind() == ClientMessageKind::kImageEnd && !arrivals_.IsFilled(session, message.As<ImageEnd>(), may_wait)) break;
    any = true;
    if (!session.must_restart || message.kind() == ClientMessageKind::kImageEnd) Handle(session, message);
    session.from_client.Advance();
  }
  if (any) assignment_.Pump();
  return any;
}

void Sessions::Handle(Session& session, const ClientMessage& message) {
  Status status;
  switch (message.kind()) {
    case ClientMessageKind::kRequestPlace:
      // From before the agent began to serve it: the client asks again when it attaches.
      if (session.connection != 0) status = assignment_.Add(session, message.As<RequestPlace>());
      break;
    case ClientMessageKind::kImageBegin: status = arrivals_.OnBegin(session, message.As<ImageBegin>()); break;
    case ClientMessageKind::kChunkProgress: status = arrivals_.OnProgress(session, message.As<ChunkProgress>()); break;
    case ClientMessageKind::kImageEnd: status = arrivals_.OnEnd(session, message.As<ImageEnd>()); break;
    case ClientMessageKind::kImageAbort: arrivals_.OnAbort(session, message.As<ImageAbort>().image_serial); break;
    case ClientMessageKind::kReturnSlot: OnReturn(session, message.As<ReturnSlot>().slot); break;
    case ClientMessageKind::kChunkWritten: status = throughput_.OnChunkWritten(session, message.As<ChunkWritten>()); break;
    default: status = Status(Code::kInvalidArgument, "an entry of no known kind"); break;
  }
  core_.sessions().PublishCounts(session);
  if (status.ok()) return;
  ++core_.counters().messages_refused;
  static LogRateLimit limit(std::chrono::seconds(1));
  LogLimited(limit, LogLevel::kWarning, "agent", "session {} (job {}, rank {}): entry of kind {} refused: {}", session.id,
             session.hello.job, session.hello.rank, static_cast<uint32_t>(message.kind()), status.ToString());
  if (message.kind() == ClientMessageKind::kImageEnd) {
    core_.sessions().SendFailure(session, message.As<ImageEnd>().image_serial, status);
    core_.sessions().PublishCounts(session);
  }
}

void Sessions::OnReturn(Session& session, const SlotRange& slot) {
  if (slot.tier >= session.tiers.size()) return;
  TierUnit* unit = session.tiers[slot.tier];
  if (!unit->space->Return(slot.slot, slot.slot_generation, session.id)) return;
  (void)throughput_.OnReturned(session, SlotId{unit->id, slot.slot});
}

}  // namespace kedge
