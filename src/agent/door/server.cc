#include "agent/door/server.h"

#include <fmt/format.h>

#include "agent/bring/bringer.h"
#include "agent/bring/rebuilder.h"
#include "agent/bring/shared_reads.h"
#include "agent/bring/windows.h"
#include "agent/door/sessions.h"
#include "agent/door/waiters.h"
#include "agent/flush/publisher.h"
#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/images/open_images.h"
#include "agent/images/pending_images.h"
#include "agent/peers/measure_peers.h"
#include "agent/peers/peers.h"
#include "agent/schedule/halts.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/session.h"
#include "base/log.h"
#include "os/machine/machine.h"
#include "session/connection.h"

namespace kedge {
namespace {

constexpr size_t kPeersMax = 65536;
constexpr Duration kPatiencePeriod = std::chrono::seconds(2);

Status WrongProtocol(uint32_t theirs, const std::string& build) {
  return Status(Code::kMismatch, fmt::format("you speak protocol {} (build {}), this agent {} (build {}); let the running agent "
                                             "end, or use the same build",
                                             theirs, build, kProtocolVersion, BuildName()));
}

}  // namespace

Server::~Server() {
  StopListening();
  Disconnect();
}

void Server::StopListening() {
  if (listener_watch_ != 0) core_.loop().Unwatch(std::exchange(listener_watch_, 0));
  listener_.reset();
}

void Server::Disconnect() {
  for (auto& [id, client] : clients_) core_.loop().Unwatch(client->watch);
  clients_.clear();
}

Status Server::Listen() {
  os::SocketLimits limits;
  limits.message_bytes_max = kMessageBytesMax;
  limits.descriptors_max = 3 + kControlTiersMax;
  KEDGE_ASSIGN_OR_RETURN(os::UnixListener listener, os::UnixListener::Listen(core_.settings().SocketPath(), limits));
  listener_.emplace(std::move(listener));
  return Status::Ok();
}

Status Server::Serve() {
  KEDGE_ASSIGN_OR_RETURN(listener_watch_, core_.loop().Watch(listener_->descriptor(), os::EventLoop::Interest::kRead,
                                                             [this](os::Readiness) { AcceptAll(); }));
  return Status::Ok();
}

Server::Client* Server::Find(uint64_t id) {
  auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : found->second.get();
}

void Server::AcceptAll() {
  for (;;) {
    auto accepted = listener_->Accept();
    if (!accepted.ok()) {
      static LogRateLimit limit(std::chrono::seconds(10));
      LogLimited(limit, LogLevel::kWarning, "agent", "a connection could not be taken: {}", accepted.status().ToString());
      return;
    }
    if (!accepted->has_value()) return;
    auto credentials = (*accepted)->Peer();
    if (!credentials.ok() || credentials->user_id != os::EffectiveUser() || clients_.size() >= kPeersMax) {
      LogWarning("agent", "a connection is refused: {}",
                 !credentials.ok()              ? credentials.status().ToString()
                 : clients_.size() >= kPeersMax ? "too many"
                                                : fmt::format("it is user {}'s", credentials->user_id));
      continue;
    }
    const uint64_t id = ++last_connection_;
    auto client = std::make_unique<Client>(std::move(**accepted));
    client->process_id = credentials->process_id;
    auto watch = core_.loop().Watch(client->socket.descriptor(), os::EventLoop::Interest::kRead,
                                    [this, id](os::Readiness ready) { OnReady(id, ready); });
    if (!watch.ok()) continue;
    client->watch = *watch;
    clients_[id] = std::move(client);
  }
}

void Server::OnReady(uint64_t id, os::Readiness ready) {
  Client* client = Find(id);
  if (client == nullptr) return;
  if (ready.writable) {
    if (!client->socket.Flush().ok()) return Disconnect(id);
    if (!client->socket.has_unsent()) (void)core_.loop().ChangeInterest(client->watch, os::EventLoop::Interest::kRead);
  }
  if (ready.readable || ready.hung_up) Receive(id);
}

void Server::Receive(uint64_t id) {
  while (Client* client = Find(id)) {
    auto frame = client->socket.TryReceive();
    if (!frame.ok()) return Disconnect(id);
    if (!frame->has_value()) return;
    auto message = DecodeMessage(AsBytes((*frame)->body));
    if (!message.ok()) {
      LogWarning("agent", "process {} sent what is no message: {}", client->process_id, message.status().ToString());
      return Disconnect(id);
    }
    Handle(id, *message);
  }
}

void Server::Disconnect(uint64_t id) {
  auto found = clients_.find(id);
  if (found == clients_.end()) return;
  const std::unique_ptr<Client> client = std::move(found->second);
  clients_.erase(found);
  core_.loop().Unwatch(client->watch);
  waiters_.DropConnection(id);
  if (client->session_id != 0) sessions_.Detach(client->session_id);
}

void Server::ForgetSession(uint64_t id) {
  if (Client* client = Find(id)) client->session_id = 0;
}

void Server::Reply(uint64_t id, uint64_t number, const Message& message, std::vector<os::UniqueFd> descriptors) {
  Client* client = Find(id);
  if (client == nullptr) return;
  const Buffer frame = EncodeMessage(number, message);
  Status queued = client->socket.Queue(AsText(frame), std::move(descriptors));
  if (!queued.ok()) {
    // Not now: whoever asked is in the middle of using the connection.
    core_.loop().Post([this, id] { Disconnect(id); });
    return;
  }
  if (client->socket.has_unsent()) (void)core_.loop().ChangeInterest(client->watch, os::EventLoop::Interest::kReadWrite);
}

void Server::ReplyStatus(uint64_t id, uint64_t number, const Status& status) {
  if (status.ok()) {
    Reply(id, number, DoneReply{});
  } else {
    Reply(id, number, ErrorReply{status});
  }
}

void Server::HandleGreeting(uint64_t id, const NumberedMessage& message) {
  Client* client = Find(id);
  if (const auto* tool = std::get_if<ToolHello>(&message.message)) {
    if (tool->protocol != kProtocolVersion) return ReplyStatus(id, message.number, WrongProtocol(tool->protocol, tool->build));
    client->greeted = true;
    return Reply(id, message.number, ToolWelcome{BuildName(), core_.settings().node, core_.control().agent_pid});
  }
  if (const auto* known = std::get_if<KnownJobsRequest>(&message.message)) {
    if (known->protocol != kProtocolVersion) return ReplyStatus(id, message.number, WrongProtocol(known->protocol, known->build));
    return Reply(id, message.number, sessions_.KnownJobs(*known));
  }
  const auto* hello = std::get_if<Hello>(&message.message);
  if (hello == nullptr) {
    return ReplyStatus(id, message.number, Status(Code::kFailedPrecondition, "the first message must be a Hello"));
  }
  if (hello->protocol != kProtocolVersion) return ReplyStatus(id, message.number, WrongProtocol(hello->protocol, hello->build));
  if (!hello->NeedsPeers()) return Admit(id, message.number, *hello);
  // On a busy machine it takes seconds until the network is open.
  const auto patience =
      core_.loop().AddPeriodic(kPatiencePeriod, [this, id, number = message.number] { Reply(id, number, PatienceReply{}); });
  peers_.OpenThen([this, id, number = message.number, hello = *hello, patience] {
    core_.loop().CancelTimer(patience);
    Admit(id, number, hello);
  });
}

void Server::Admit(uint64_t id, uint64_t number, const Hello& hello) {
  Client* client = Find(id);
  if (client == nullptr) return;
  if (client->greeted) return ReplyStatus(id, number, Status(Code::kFailedPrecondition, "there was a Hello before"));
  auto admission = sessions_.Attach(hello, client->process_id, id);
  if (!admission.ok()) {
    LogWarning("agent", "process {} is refused: {}", client->process_id, admission.status().ToString());
    return ReplyStatus(id, number, admission.status());
  }
  client->greeted = true;
  client->session_id = admission->session_id;
  Reply(id, number, admission->welcome, std::move(admission->descriptors));
}

void Server::HandleSessionRequest(uint64_t id, const NumberedMessage& message) {
  Session* session = core_.sessions().Find(Find(id)->session_id);
  if (session == nullptr) {
    return ReplyStatus(id, message.number, Status(Code::kFailedPrecondition, "this needs a session, and there is none"));
  }
  if (const auto* open = std::get_if<OpenImageRequest>(&message.message)) return OpenImage(id, message.number, *open);
  if (const auto* restored = std::get_if<RestoredRequest>(&message.message)) {
    return ReplyStatus(id, message.number, sessions_.NoteRestored(*session, *restored));
  }
  if (const auto* members = std::get_if<MembersRequest>(&message.message)) {
    return ReplyStatus(id, message.number, sessions_.SetMembers(*session, members->members));
  }
  if (const auto* open = std::get_if<OpenWindowRequest>(&message.message)) {
    return windows_.Open(
        *session, *open, [this, id, number = message.number](const auto& reply, std::vector<os::UniqueFd> descriptors) {
          reply.ok() ? Reply(id, number, *reply, std::move(descriptors)) : ReplyStatus(id, number, reply.status());
        });
  }
  if (const auto* show = std::get_if<ShowRequest>(&message.message)) {
    return windows_.Show(*session, *show, [this, id, number = message.number](const auto& reply) {
      reply.ok() ? Reply(id, number, *reply) : ReplyStatus(id, number, reply.status());
    });
  }
  if (const auto* share = std::get_if<ShareObjectsRequest>(&message.message)) {
    const auto reply = shared_reads_.Open(*session, *share);
    return reply.ok() ? Reply(id, message.number, *reply) : ReplyStatus(id, message.number, reply.status());
  }
  if (const auto* read = std::get_if<ReadLineRequest>(&message.message)) {
    return shared_reads_.Read(
        *session, *read, [this, id, number = message.number](const auto& reply, std::vector<os::UniqueFd> descriptors) {
          reply.ok() ? Reply(id, number, *reply, std::move(descriptors)) : ReplyStatus(id, number, reply.status());
        });
  }
  if (const auto* close = std::get_if<CloseImageRequest>(&message.message)) {
    return ReplyStatus(id, message.number, open_images_.Close(*session, close->image));
  }
  sessions_.End(*session, "goodbye");
  ReplyStatus(id, message.number, Status::Ok());
}

// From this node, or brought here from the others first.
void Server::OpenImage(uint64_t id, uint64_t number, const OpenImageRequest& request) {
  Session* session = core_.sessions().Find(Find(id)->session_id);
  if (!request.replace) {
    auto reply = open_images_.Open(*session, request);
    if (reply.ok()) return Reply(id, number, *reply);
    if (reply.status().code() != Code::kNotFound || !session->job->BringsImages()) return ReplyStatus(id, number, reply.status());
  }
  const BringOptions options{.replace = request.replace};
  bringer_.Bring(*session->job, request.generation, request.rank, options, [this, id, number, request](const Status& brought) {
    const Client* client = Find(id);
    Session* found = client == nullptr ? nullptr : core_.sessions().Find(client->session_id);
    if (found == nullptr) return;
    if (!brought.ok()) return ReplyStatus(id, number, brought);
    auto opened = open_images_.Open(*found, request);
    if (!opened.ok()) return ReplyStatus(id, number, opened.status());
    Reply(id, number, *opened);
  });
}

void Server::Measure(uint64_t id, uint64_t number, const MeasureRequest& request) {
  measure_peers_.Measure(
      request, [this, id] { return Find(id) != nullptr; },
      [this, id, number](const Result<MeasureReply>& reply) {
        if (!reply.ok()) return ReplyStatus(id, number, reply.status());
        Reply(id, number, *reply);
      });
}

void Server::Handle(uint64_t id, const NumberedMessage& message) {
  if (!Find(id)->greeted) return HandleGreeting(id, message);
  const uint64_t number = message.number;
  const Message& body = message.message;
  // What came through the mailbox before this question is part of the answer.
  sessions_.DrainAll(/*may_wait=*/true);
  if (Find(id) == nullptr) return;
  if (const auto* wait = std::get_if<WaitRequest>(&body)) return waiters_.AddWait(id, number, *wait);
  if (const auto* test = std::get_if<TestRequest>(&body)) return waiters_.AddTest(id, number, *test);
  if (const auto* drain = std::get_if<DrainRequest>(&body)) return waiters_.AddDrain(id, number, *drain);
  if (const auto* versions = std::get_if<LocalVersionsRequest>(&body)) {
    Job* job = core_.FindJob(versions->store_id, versions->job);
    if (job == nullptr || !job->BringsImages()) {
      return Reply(id, number, LocalVersionsReply{ListLocalVersions(images_, *versions), {}, {}});
    }
    return bringer_.ListVersions(*job, *versions,
                                 [this, id, number](const LocalVersionsReply& reply) { Reply(id, number, reply); });
  }
  if (const auto* rebuild = std::get_if<RebuildRequest>(&body)) {
    Job* job = core_.FindJob(rebuild->store_id, rebuild->job);
    if (job == nullptr) {
      return ReplyStatus(id, number,
                         Status(Code::kNotFound, fmt::format("the agent of node {} knows nothing of job {}",
                                                             core_.settings().node, rebuild->job)));
    }
    return rebuilder_.Rebuild(*job, *rebuild, [this, id, number](const RebuildReply& reply) { Reply(id, number, reply); });
  }
  if (const auto* known = std::get_if<KnownJobsRequest>(&body)) {
    return Reply(id, number, sessions_.KnownJobs(*known));
  }
  if (const auto* measure = std::get_if<MeasureRequest>(&body)) return Measure(id, number, *measure);
  if (const auto* cleanup = std::get_if<CleanupRequest>(&body)) return Reply(id, number, retention_.Cleanup(*cleanup));
  if (const auto* pending = std::get_if<PendingRequest>(&body)) return Reply(id, number, pending_.Of(*pending));
  if (const auto* retain = std::get_if<RetainRequest>(&body)) {
    Job* job = core_.FindJob(retain->store_id, retain->job);
    if (job != nullptr) publisher_.Retain(*job, retain->name);
    return ReplyStatus(id, number, Status::Ok());
  }
  if (std::holds_alternative<StatusRequest>(body)) return Reply(id, number, StatusReply{daemon_.status()});
  if (const auto* halt = std::get_if<HaltRequest>(&body)) return Reply(id, number, HaltReply{halts_.Halt(*halt)});
  if (const auto* shutdown = std::get_if<ShutdownRequest>(&body)) {
    daemon_.leave(shutdown->when_drained);
    return ReplyStatus(id, number, Status::Ok());
  }
  if (std::holds_alternative<OpenImageRequest>(body) || std::holds_alternative<CloseImageRequest>(body) ||
      std::holds_alternative<OpenWindowRequest>(body) || std::holds_alternative<ShowRequest>(body) ||
      std::holds_alternative<ShareObjectsRequest>(body) || std::holds_alternative<ReadLineRequest>(body) ||
      std::holds_alternative<MembersRequest>(body) || std::holds_alternative<RestoredRequest>(body) ||
      std::holds_alternative<GoodbyeRequest>(body)) {
    return HandleSessionRequest(id, message);
  }
  ReplyStatus(id, number, Status(Code::kInvalidArgument, "the agent is not asked such a thing"));
}

}  // namespace kedge
