#include "agent/door/sessions.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/daemon/agent.h"
#include "agent/door/server.h"
#include "agent/images/images.h"
#include "agent/peers/peers.h"
#include "agent/protect/protect.h"
#include "agent/schedule/calls.h"
#include "agent/schedule/tuning.h"
#include "agent/space/assignment.h"
#include "agent/space/throughput.h"
#include "agent/space/tiers.h"
#include "base/log.h"
#include "format/store_records.h"
#include "os/files/files.h"
#include "os/memory/futex.h"
#include "session/connection.h"

namespace kedge {
namespace {

// Entries taken from one mailbox before the next one has its turn.
constexpr int kEntriesInTurn = 256;
constexpr size_t kRestoredKept = 64;  // of all names of a job

AgentMessage MessageOf(AgentMessageKind kind, const Status& why) {
  AgentMessage message{};
  message.kind = kind;
  message.code = static_cast<int32_t>(why.code());
  message.errno_value = why.errno_value();
  why.message().copy(message.text, sizeof(message.text) - 1);
  return message;
}

}  // namespace

Sessions::~Sessions() {
  for (auto& [id, session] : sessions_) {
    if (session->pidfd_watch != 0) agent_.loop().Unwatch(session->pidfd_watch);
  }
}

Session* Sessions::Find(uint32_t id) const {
  auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

std::vector<Session*> Sessions::all() const {
  std::vector<Session*> all;
  for (const auto& [id, session] : sessions_) all.push_back(session.get());
  return all;
}

bool Sessions::HasAttempt(const Job& job, uint32_t attempt) const {
  return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    return entry.second->job == &job && entry.second->hello.attempt == attempt && !entry.second->ended;
  });
}

std::string Sessions::MailboxPath(uint32_t id) const {
  return agent_.Path(fmt::format("sessions/{}", id));
}

Status Sessions::CheckNodeKeys(const Hello& hello) const {
  for (const auto& [key, wanted] : hello.node_keys) {
    const auto& mine = agent_.options().node_keys;
    auto found = std::find_if(mine.begin(), mine.end(), [&, &name = key](const auto& entry) { return entry.first == name; });
    const std::string running = found == mine.end() ? "the default" : found->second;
    if (running != wanted) {
      return Status(Code::kMismatch,
                    fmt::format("{} = {} is asked for, but the agent of node {} runs with {}; leave the key out, or let that "
                                "agent end (kedge agent --stop) first",
                                key, wanted, agent_.settings().node, running));
    }
  }
  return Status::Ok();
}

Job& Sessions::JobFor(const Hello& hello) {
  auto& slot = agent_.jobs()[JobKey(hello.store_id, hello.job)];
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
  if (!same_store) job.store = agent_.MakeStore(job.store_id, job.hello.keys);
  if (const auto record = DecodeAttemptRecord(AsBytes(hello.unrecorded)); record.ok() && record->attempt == hello.attempt) {
    job.store->Await(*record);
  }
  if (is_new) agent_.throughput().LoadStore(job.store_id);
  if (newer_attempt) {
    job.calls = JobCalls();
    agent_.images().ReconsiderAll(job);
  }
  return job;
}

Result<Session*> Sessions::Create(const Hello& hello, const os::ProcessIdentity& owner) {
  KEDGE_ASSIGN_OR_RETURN(std::vector<TierUnit*> tiers, agent_.tiers().ForJob(hello.keys));
  do {
    last_id_ = last_id_ >= kAgentSlotOwner - 1 ? 1 : last_id_ + 1;
  } while (sessions_.contains(last_id_));
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
  sessions_[last_id_] = std::move(session);
  WatchOwner(*created);
  return created;
}

void Sessions::WatchOwner(Session& session) {
  auto pidfd = os::OpenPidfd(session.owner);
  if (!pidfd.ok()) {
    if (pidfd.status().code() == Code::kNotFound) agent_.loop().Post([this, id = session.id] { OnOwnerDeath(id); });
    return;  // an old kernel: CheckOwners
  }
  session.pidfd = std::move(*pidfd);
  auto watch = agent_.loop().Watch(session.pidfd.get(), os::EventLoop::Interest::kRead,
                                   [this, id = session.id](os::Readiness) { OnOwnerDeath(id); });
  if (watch.ok()) session.pidfd_watch = *watch;
}

void Sessions::OnOwnerDeath(uint32_t session_id) {
  Session* session = Find(session_id);
  if (session != nullptr) End(*session, "its process ended");
}

void Sessions::CheckOwners() {
  for (Session* session : all()) {
    if (session->pidfd_watch == 0 && !os::IsAlive(session->owner)) End(*session, "its process ended");
  }
}

Status Sessions::AttachAgain(Session& session, const Hello& hello) {
  // Everything that was handed over is taken; requests of before are forgotten.
  while (Drain(session)) {
  }
  if (Find(hello.session_id) != &session || session.ended) return Status(Code::kNotFound, "the session broke");
  agent_.assignment().Drop(session);
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
    if (slot.is_full_chunk) session.full_slots.insert(SlotId{unit->id, slot.slot});
  }
  for (TierUnit* unit : session.tiers) {
    for (uint32_t slot : unit->space->SlotsOf(session.id)) {
      if (held.contains(SlotId{unit->id, slot})) continue;
      session.full_slots.erase(SlotId{unit->id, slot});
      agent_.throughput().Drop(session, SlotId{unit->id, slot});
      unit->space->Return(slot, unit->space->Get(slot).generation, session.id);
    }
  }
  session.last_serial = std::max(session.last_serial, hello.last_image_serial);
  session.hello = hello;
  PublishCounts(session);
  return SaveSession(session);
}

Result<Sessions::Admission> Sessions::Admit(Session& session, bool attached_again) {
  Admission admission;
  admission.session_id = session.id;
  Welcome& welcome = admission.welcome;
  welcome.session_id = session.id;
  welcome.build = BuildName();
  welcome.attached_again = attached_again;
  welcome.node = agent_.settings().node;
  welcome.failure_domain = agent_.settings().failure_domain;
  if (session.hello.NeedsPeers()) {
    Status opened = agent_.peers().Open();
    if (!opened.ok()) LogError("agent", "no network between nodes: {}", opened.ToString());
    welcome.address = agent_.peers().address();
  }
  welcome.chunk_bytes = agent_.settings().chunk_bytes.value_or(kChunkBytesDefault);
  KEDGE_ASSIGN_OR_RETURN(os::UniqueFd mailbox, os::DuplicateDescriptor(session.mailbox.descriptor()));
  KEDGE_ASSIGN_OR_RETURN(os::UniqueFd wake, os::DuplicateDescriptor(agent_.wake().descriptor()));
  KEDGE_ASSIGN_OR_RETURN(os::UniqueFd control, os::DuplicateDescriptor(agent_.control_mapping().descriptor()));
  admission.descriptors.push_back(std::move(mailbox));
  admission.descriptors.push_back(std::move(wake));
  admission.descriptors.push_back(std::move(control));
  for (const TierUnit* unit : session.tiers) {
    const TierInfo& info = unit->info();
    welcome.tiers.push_back(info);
    welcome.chunk_bytes = std::min(welcome.chunk_bytes, info.slot_bytes);
    welcome.capacity_bytes += info.slot_bytes * info.slots;
    if (info.kind != TierKind::kMemory) continue;
    KEDGE_ASSIGN_OR_RETURN(os::UniqueFd pool, os::DuplicateDescriptor(unit->tier->descriptor()));
    admission.descriptors.push_back(std::move(pool));
  }
  welcome.piece_bytes = std::min(agent_.settings().piece_bytes, welcome.chunk_bytes);
  return admission;
}

Result<Sessions::Admission> Sessions::Attach(const Hello& hello, int32_t process_id, uint64_t peer) {
  KEDGE_RETURN_IF_ERROR(ValidateName(hello.job, "job name"));
  const bool sane = hello.ranks >= 1 && hello.ranks <= kRanksMax && hello.rank < hello.ranks && hello.ranks_on_node >= 1 &&
                    hello.ranks_on_node <= std::min(hello.ranks, kRanksOnNodeMax) && hello.attempt >= 1 &&
                    !hello.store_id.IsZero() && hello.keys.store_path.starts_with("/") &&
                    (hello.keys.scratch.empty() || hello.keys.scratch.starts_with("/"));
  if (!sane) {
    return Status(Code::kInvalidArgument,
                  fmt::format("hello of job {}: rank {} of {} ({} on the node), attempt {}, store \"{}\": out of bounds",
                              hello.job, hello.rank, hello.ranks, hello.ranks_on_node, hello.attempt, hello.keys.store_path));
  }
  KEDGE_RETURN_IF_ERROR(CheckNodeKeys(hello));
  if (const Job* job = agent_.FindJob(hello.store_id, hello.job); job != nullptr && hello.attempt < job->hello.attempt) {
    return Status(Code::kMismatch,
                  fmt::format("job {}: attempt {} is over; attempt {} has begun", hello.job, hello.attempt, job->hello.attempt));
  }
  KEDGE_ASSIGN_OR_RETURN(os::ProcessIdentity owner, os::IdentityOf(process_id));
  // Nobody is given a pool that somebody has deleted.
  agent_.CheckPlaces();
  Session* session = Find(hello.session_id);
  bool attached_again = false;
  if (session != nullptr && session->owner == owner && session->hello.job == hello.job &&
      session->hello.store_id == hello.store_id && session->hello.rank == hello.rank) {
    if (session->peer != 0) return Status(Code::kBusy, "the session is attached through another connection");
    if (!session->must_restart && AttachAgain(*session, hello).ok()) {
      session->job = &JobFor(hello);
      attached_again = true;
    } else {
      if (Find(hello.session_id) != nullptr) End(*session, "it begins anew");
      session = nullptr;
    }
  } else {
    session = nullptr;
  }
  if (session == nullptr) {
    KEDGE_ASSIGN_OR_RETURN(session, Create(hello, owner));
  }
  session->peer = peer;
  SaveJob(*session->job);
  LogInfo("agent", "session {}: job {} rank {} of {}, attempt {}, process {}{}", session->id, hello.job, hello.rank, hello.ranks,
          hello.attempt, process_id, attached_again ? ", attached again" : "");
  agent_.tuning().OnAttached(*session);
  agent_.calls().OnAttached(*session, attached_again);
  auto admission = Admit(*session, attached_again);
  agent_.assignment().Pump();
  return admission;
}

KnownJobsReply Sessions::KnownJobs(const KnownJobsRequest& request) const {
  KnownJobsReply reply;
  for (const auto& [key, job] : agent_.jobs()) {
    if (job->name != request.job || job->hello.keys.store_path != request.store_path) continue;
    KnownJob& known = reply.jobs.emplace_back(
        KnownJob{job->store_id, job->hello.attempt, 0, !job->versions.empty(), job->hello.unrecorded, job->restored});
    for (const auto& [id, session] : sessions_) {
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
  if (!sane || ranks.size() != members.ranks || !names.contains(agent_.settings().node)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("job {}: the list of {} nodes is not one of attempt {} with {} ranks, this node among them",
                              job.name, members.nodes.size(), session.hello.attempt, session.hello.ranks));
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
  const bool is_known = std::any_of(job.restored.begin(), job.restored.end(), [&](const RestoredRecord& known) {
    return known.origin == record.origin && known.attempt == record.attempt && known.take == record.take;
  });
  if (is_known) return Status::Ok();  // by another rank of this node
  job.restored.push_back(record);
  if (job.restored.size() > kRestoredKept) job.restored.erase(job.restored.begin());
  if (!request.noted) job.store->AwaitRestored(record);
  SaveJob(job);
  return Status::Ok();
}

Status Sessions::SetMembers(Session& session, const Membership& members) {
  Job& job = *session.job;
  KEDGE_RETURN_IF_ERROR(CheckMembers(session, members));
  // The node's ranks all say the same.
  if (members == job.members && (job.layout != nullptr || !job.hello.keys.Protects())) return Status::Ok();
  if (members.attempt != job.members.attempt) agent_.peers().Invite(job, members);
  return ChangeMembers(job, members);
}

Status Sessions::ChangeMembers(Job& job, const Membership& members) {
  if (members.attempt != job.members.attempt) {
    for (auto& [generation, version] : job.versions) version->restored = false;
  }
  job.members = members;
  SaveJob(job);
  Status joined = agent_.protect().OnMembers(job);
  agent_.images().ReconsiderAll(job);
  return joined;
}

void Sessions::Detach(uint32_t session_id) {
  Session* session = Find(session_id);
  if (session == nullptr) return;
  session->peer = 0;
  agent_.images().CloseAll(*session);
  agent_.assignment().Drop(*session);
}

void Sessions::FreeSlots(Session& session) {
  for (TierUnit* unit : session.tiers) {
    for (uint32_t slot : unit->space->SlotsOf(session.id)) {
      unit->space->Return(slot, unit->space->Get(slot).generation, session.id);
    }
  }
  session.full_slots.clear();
  agent_.throughput().DropAll(session);
}

void Sessions::End(Session& session, const char* why) {
  if (session.ended) return;
  while (Drain(session)) {
  }
  agent_.tuning().Collect(session);
  session.ended = true;
  LogInfo("agent", "session {} of job {} rank {} ends: {}", session.id, session.hello.job, session.hello.rank, why);
  agent_.assignment().Drop(session);
  agent_.images().DropUnended(session);
  agent_.images().CloseAll(session);
  FreeSlots(session);
  if (session.pidfd_watch != 0) agent_.loop().Unwatch(session.pidfd_watch);
  (void)os::UnlinkIfPresent(fs(), MailboxPath(session.id));
  (void)os::UnlinkIfPresent(fs(), MailboxPath(session.id) + ".hello");
  if (session.peer != 0) agent_.server().ForgetSession(session.peer);
  Job& job = *session.job;
  sessions_.erase(session.id);
  agent_.images().ReconsiderAll(job);
  agent_.assignment().Pump();
  agent_.Nudge();
}

void Sessions::Restart(Session& session) {
  session.must_restart = true;
  if (session.peer != 0) agent_.server().Disconnect(session.peer);
}

void Sessions::RestartSessionsOf(const TierUnit* unit) {
  for (Session* session : all()) {
    if (std::find(session->tiers.begin(), session->tiers.end(), unit) != session->tiers.end()) Restart(*session);
  }
}

void Sessions::RestartAll() {
  for (Session* session : all()) Restart(*session);
}

bool Sessions::DrainAll() {
  bool any = false;
  std::vector<uint32_t> ids;
  for (const auto& [id, session] : sessions_) ids.push_back(id);
  for (uint32_t id : ids) {
    Session* session = Find(id);
    any = (session != nullptr && Drain(*session)) || any;
  }
  return any;
}

bool Sessions::Drain(Session& session) {
  if (session.ended || session.broken) return false;
  while (!session.unsent.empty() && session.to_client.TryPush(session.unsent.front())) session.unsent.pop_front();
  const uint32_t id = session.id;
  bool any = false;
  for (int i = 0; i < kEntriesInTurn; ++i) {
    ClientMessage message;
    const RingPeek peek = session.from_client.Peek(&message);
    if (peek == RingPeek::kBroken) {
      ++agent_.counters().sessions_broken;
      LogError("agent", "the mailbox of session {} (job {}, rank {}) makes no sense any more", id, session.hello.job,
               session.hello.rank);
      // Nothing more is read from it. Its slots stay its own while its process lives; it may come back as a new one.
      session.broken = session.must_restart = true;
      if (session.peer != 0) agent_.server().Disconnect(session.peer);
      return false;
    }
    if (peek == RingPeek::kEmpty) break;
    any = true;
    if (!session.must_restart || message.kind == ClientMessageKind::kImageEnd) Handle(session, message);
    session.from_client.Advance();
  }
  if (any) agent_.assignment().Pump();
  return any;
}

void Sessions::Handle(Session& session, const ClientMessage& message) {
  Status status;
  switch (message.kind) {
    case ClientMessageKind::kRequestPlace:
      // From before the agent began to serve it: the client asks again when it attaches.
      if (session.peer != 0) status = agent_.assignment().Add(session, message);
      break;
    case ClientMessageKind::kImageBegin: status = agent_.images().OnBegin(session, message); break;
    case ClientMessageKind::kProgress: status = agent_.images().OnProgress(session, message); break;
    case ClientMessageKind::kImageEnd:
      status = agent_.images().OnEnd(session, message);
      agent_.calls().LookSoon();
      break;
    case ClientMessageKind::kImageAbort: agent_.images().OnAbort(session, message.image_serial); break;
    case ClientMessageKind::kReturnSlot:
      if (message.range.tier < session.tiers.size()) {
        TierUnit* unit = session.tiers[message.range.tier];
        if (unit->space->Return(message.range.slot, message.range.slot_generation, session.id)) {
          session.full_slots.erase(SlotId{unit->id, message.range.slot});
          agent_.throughput().Drop(session, SlotId{unit->id, message.range.slot});
        }
      }
      break;
    case ClientMessageKind::kChunkWritten: status = agent_.throughput().OnChunkWritten(session, message); break;
    default: status = Status(Code::kInvalidArgument, "an entry of no known kind"); break;
  }
  PublishCounts(session);
  if (status.ok()) return;
  ++agent_.counters().messages_refused;
  static LogRateLimit limit(std::chrono::seconds(1));
  LogLimited(limit, LogLevel::kWarning, "agent", "session {} (job {}, rank {}): entry of kind {} refused: {}", session.id,
             session.hello.job, session.hello.rank, static_cast<uint32_t>(message.kind), status.ToString());
  if (message.kind == ClientMessageKind::kImageEnd) {
    SendFailure(session, message.image_serial, status);
    PublishCounts(session);
  }
}

void Sessions::SendFailure(Session& session, uint64_t serial, const Status& why) {
  ++session.images_failed;
  AgentMessage message = MessageOf(AgentMessageKind::kFlushFailed, why);
  message.number = serial;
  Send(session, message);
}

void Sessions::SendTakenOver(Session& session, const Status& why) {
  Send(session, MessageOf(AgentMessageKind::kTakenOver, why));
}

void Sessions::Send(Session& session, const AgentMessage& message) {
  if (session.ended) return;
  constexpr size_t kUnsentMax = 4096;  // of a client that does not listen: it has lost the oldest
  if (!session.unsent.empty() || !session.to_client.TryPush(message)) {
    if (session.unsent.size() == kUnsentMax) session.unsent.pop_front();
    session.unsent.push_back(message);
    return;
  }
  Mailbox& box = session.box();
  box.client_wake.fetch_add(1, std::memory_order_seq_cst);
  if (box.client_sleeping.load(std::memory_order_seq_cst) != 0) os::FutexWakeAll(&box.client_wake);
}

void Sessions::PublishCounts(Session& session) {
  if (session.ended) return;
  Mailbox& box = session.box();
  const auto& pending = session.pending_serials;
  box.images_failed.store(session.images_failed, std::memory_order_release);
  box.images_done.store(pending.empty() ? session.last_serial : *pending.begin() - 1, std::memory_order_release);
}

}  // namespace kedge
