#include "agent/door/server.h"

#include <fmt/format.h>

#include "agent/bring/fetch.h"
#include "agent/bring/windows.h"
#include "agent/daemon/agent.h"
#include "agent/door/sessions.h"
#include "agent/door/status.h"
#include "agent/door/waiters.h"
#include "agent/flush/publish.h"
#include "agent/images/images.h"
#include "agent/peers/measure_peers.h"
#include "agent/peers/peers.h"
#include "agent/protect/protect.h"
#include "agent/schedule/calls.h"
#include "agent/schedule/local_level.h"
#include "base/log.h"
#include "os/machine/machine.h"
#include "session/connection.h"

namespace kedge {
namespace {

constexpr size_t kPeersMax = 65536;
constexpr Duration kReachTimeout = std::chrono::seconds(5);

Status WrongProtocol(uint32_t theirs, const std::string& build) {
  return Status(Code::kMismatch, fmt::format("you speak protocol {} (build {}), this agent {} (build {}); let the running agent "
                                             "end, or use the same build",
                                             theirs, build, kProtocolVersion, BuildName()));
}

}  // namespace

Server::~Server() {
  for (auto& [id, peer] : peers_) agent_.loop().Unwatch(peer->watch);
  if (listener_watch_ != 0) agent_.loop().Unwatch(listener_watch_);
}

Status Server::Listen() {
  os::SocketLimits limits;
  limits.message_bytes_max = kMessageBytesMax;
  limits.descriptors_max = 3 + kControlTiersMax;
  KEDGE_ASSIGN_OR_RETURN(os::UnixListener listener, os::UnixListener::Listen(agent_.settings().SocketPath(), limits));
  listener_.emplace(std::move(listener));
  return Status::Ok();
}

Status Server::Serve() {
  KEDGE_ASSIGN_OR_RETURN(listener_watch_, agent_.loop().Watch(listener_->descriptor(), os::EventLoop::Interest::kRead,
                                                              [this](os::Readiness) { AcceptAll(); }));
  return Status::Ok();
}

Server::Peer* Server::Find(uint64_t id) {
  auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.get();
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
    if (!credentials.ok() || credentials->user_id != os::EffectiveUser() || peers_.size() >= kPeersMax) {
      LogWarning("agent", "a connection is refused: {}",
                 !credentials.ok()            ? credentials.status().ToString()
                 : peers_.size() >= kPeersMax ? "too many"
                                              : fmt::format("it is user {}'s", credentials->user_id));
      continue;
    }
    const uint64_t id = ++last_peer_;
    auto peer = std::make_unique<Peer>(std::move(**accepted));
    peer->process_id = credentials->process_id;
    auto watch = agent_.loop().Watch(peer->socket.descriptor(), os::EventLoop::Interest::kRead,
                                     [this, id](os::Readiness ready) { OnReady(id, ready); });
    if (!watch.ok()) continue;
    peer->watch = *watch;
    peers_[id] = std::move(peer);
  }
}

void Server::OnReady(uint64_t id, os::Readiness ready) {
  Peer* peer = Find(id);
  if (peer == nullptr) return;
  if (ready.writable) {
    if (!peer->socket.Flush().ok()) return Disconnect(id);
    if (!peer->socket.has_unsent()) (void)agent_.loop().ChangeInterest(peer->watch, os::EventLoop::Interest::kRead);
  }
  if (ready.readable || ready.hung_up) Receive(id);
}

void Server::Receive(uint64_t id) {
  while (Peer* peer = Find(id)) {
    auto frame = peer->socket.TryReceive();
    if (!frame.ok()) return Disconnect(id);
    if (!frame->has_value()) return;
    auto message = DecodeMessage(AsBytes((*frame)->body));
    if (!message.ok()) {
      LogWarning("agent", "process {} sent what is no message: {}", peer->process_id, message.status().ToString());
      return Disconnect(id);
    }
    Handle(id, *message);
  }
}

void Server::Disconnect(uint64_t id) {
  auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const std::unique_ptr<Peer> peer = std::move(found->second);
  peers_.erase(found);
  agent_.loop().Unwatch(peer->watch);
  agent_.waiters().DropPeer(id);
  if (peer->session_id != 0) agent_.sessions().Detach(peer->session_id);
}

void Server::ForgetSession(uint64_t id) {
  if (Peer* peer = Find(id)) peer->session_id = 0;
}

void Server::Reply(uint64_t id, uint64_t number, const Message& message, std::vector<os::UniqueFd> descriptors) {
  Peer* peer = Find(id);
  if (peer == nullptr) return;
  const Buffer frame = EncodeMessage(number, message);
  Status queued = peer->socket.Queue(AsText(frame), std::move(descriptors));
  if (!queued.ok()) {
    // Not now: whoever asked is in the middle of using the peer.
    agent_.loop().Post([this, id] { Disconnect(id); });
    return;
  }
  if (peer->socket.has_unsent()) (void)agent_.loop().ChangeInterest(peer->watch, os::EventLoop::Interest::kReadWrite);
}

void Server::ReplyStatus(uint64_t id, uint64_t number, const Status& status) {
  if (status.ok()) {
    Reply(id, number, DoneReply{});
  } else {
    Reply(id, number, ErrorReply{status});
  }
}

void Server::HandleGreeting(uint64_t id, const NumberedMessage& message) {
  Peer* peer = Find(id);
  if (const auto* tool = std::get_if<ToolHello>(&message.message)) {
    if (tool->protocol != kProtocolVersion) return ReplyStatus(id, message.number, WrongProtocol(tool->protocol, tool->build));
    peer->greeted = true;
    return Reply(id, message.number, ToolWelcome{BuildName(), agent_.settings().node, agent_.control().agent_pid});
  }
  if (const auto* known = std::get_if<KnownJobsRequest>(&message.message)) {
    if (known->protocol != kProtocolVersion) return ReplyStatus(id, message.number, WrongProtocol(known->protocol, known->build));
    return Reply(id, message.number, agent_.sessions().KnownJobs(*known));
  }
  const auto* hello = std::get_if<Hello>(&message.message);
  if (hello == nullptr) {
    return ReplyStatus(id, message.number, Status(Code::kFailedPrecondition, "the first message must be a Hello"));
  }
  if (hello->protocol != kProtocolVersion) return ReplyStatus(id, message.number, WrongProtocol(hello->protocol, hello->build));
  auto admission = agent_.sessions().Attach(*hello, peer->process_id, id);
  if (!admission.ok()) {
    LogWarning("agent", "process {} is refused: {}", peer->process_id, admission.status().ToString());
    return ReplyStatus(id, message.number, admission.status());
  }
  peer->greeted = true;
  peer->session_id = admission->session_id;
  Reply(id, message.number, admission->welcome, std::move(admission->descriptors));
}

void Server::HandleSessionRequest(uint64_t id, const NumberedMessage& message) {
  Session* session = agent_.sessions().Find(Find(id)->session_id);
  if (session == nullptr) {
    return ReplyStatus(id, message.number, Status(Code::kFailedPrecondition, "this needs a session, and there is none"));
  }
  if (const auto* open = std::get_if<OpenImageRequest>(&message.message)) return OpenImage(id, message.number, *open);
  if (const auto* restored = std::get_if<RestoredRequest>(&message.message)) {
    const Status known = agent_.sessions().NoteRestored(*session, *restored);
    if (known.ok()) {
      agent_.local_level().OnRestored(*session->job, restored->record.origin);
      agent_.protect().OnRestored(*session->job, restored->record.origin, session->hello.rank);
    }
    return ReplyStatus(id, message.number, known);
  }
  if (const auto* members = std::get_if<MembersRequest>(&message.message)) {
    return SetMembers(id, message.number, *members);
  }
  if (const auto* open = std::get_if<OpenWindowRequest>(&message.message)) {
    return agent_.windows().Open(id, message.number, *session, *open);
  }
  if (const auto* show = std::get_if<ShowRequest>(&message.message)) {
    return agent_.windows().Show(id, message.number, *session, *show);
  }
  if (const auto* close = std::get_if<CloseImageRequest>(&message.message)) {
    return ReplyStatus(id, message.number, agent_.images().Close(*session, close->image));
  }
  agent_.sessions().End(*session, "goodbye");
  ReplyStatus(id, message.number, Status::Ok());
}

// Where the leading node is not reached, the ranks must know before they rely on it.
void Server::SetMembers(uint64_t id, uint64_t number, const MembersRequest& request) {
  Session* session = agent_.sessions().Find(Find(id)->session_id);
  const Status joined = agent_.sessions().SetMembers(*session, request.members);
  const JobNode* leading = session->job->LeadingNode();
  if (!joined.ok()) return ReplyStatus(id, number, joined);
  const bool is_tried = request.tries_leading_node && leading != nullptr && leading->name != agent_.settings().node;
  if (!is_tried) return Reply(id, number, MembersReply{});
  agent_.peers().Call(*session->job, leading->name, PeerKind::kEcho, {}, kReachTimeout,
                      [this, id, number](const Result<Buffer>& echo) { Reply(id, number, MembersReply{echo.status()}); });
}

// From this node, or brought here from the others first.
void Server::OpenImage(uint64_t id, uint64_t number, const OpenImageRequest& request) {
  Session* session = agent_.sessions().Find(Find(id)->session_id);
  if (!request.replace) {
    auto reply = agent_.images().Open(*session, request);
    if (reply.ok()) return Reply(id, number, *reply);
    if (reply.status().code() != Code::kNotFound || !session->job->BringsImages()) return ReplyStatus(id, number, reply.status());
  }
  const BringOptions options{.replace = request.replace};
  agent_.fetch().Bring(*session->job, request.generation, request.rank, options,
                       [this, id, number, request](const Status& brought) {
                         const Peer* peer = Find(id);
                         Session* found = peer == nullptr ? nullptr : agent_.sessions().Find(peer->session_id);
                         if (found == nullptr) return;
                         if (!brought.ok()) return ReplyStatus(id, number, brought);
                         auto opened = agent_.images().Open(*found, request);
                         if (!opened.ok()) return ReplyStatus(id, number, opened.status());
                         Reply(id, number, *opened);
                       });
}

void Server::Measure(uint64_t id, uint64_t number, const MeasureRequest& request) {
  agent_.measure_peers().Measure(
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
  agent_.sessions().DrainAll();
  if (Find(id) == nullptr) return;
  if (const auto* wait = std::get_if<WaitRequest>(&body)) return agent_.waiters().AddWait(id, number, *wait);
  if (const auto* test = std::get_if<TestRequest>(&body)) return agent_.waiters().AddTest(id, number, *test);
  if (const auto* drain = std::get_if<DrainRequest>(&body)) return agent_.waiters().AddDrain(id, number, *drain);
  if (const auto* versions = std::get_if<LocalVersionsRequest>(&body)) {
    Job* job = agent_.FindJob(versions->store_id, versions->job);
    if (job == nullptr || !job->BringsImages()) {
      return Reply(id, number, LocalVersionsReply{agent_.images().LocalVersions(*versions), {}, {}});
    }
    return agent_.fetch().ListVersions(*job, *versions,
                                       [this, id, number](const LocalVersionsReply& reply) { Reply(id, number, reply); });
  }
  if (const auto* rebuild = std::get_if<RebuildRequest>(&body)) {
    Job* job = agent_.FindJob(rebuild->store_id, rebuild->job);
    if (job == nullptr) {
      return ReplyStatus(id, number,
                         Status(Code::kNotFound, fmt::format("the agent of node {} knows nothing of job {}",
                                                             agent_.settings().node, rebuild->job)));
    }
    return agent_.fetch().RebuildLost(*job, *rebuild,
                                      [this, id, number](const RebuildReply& reply) { Reply(id, number, reply); });
  }
  if (const auto* known = std::get_if<KnownJobsRequest>(&body)) {
    return Reply(id, number, agent_.sessions().KnownJobs(*known));
  }
  if (const auto* measure = std::get_if<MeasureRequest>(&body)) return Measure(id, number, *measure);
  if (const auto* cleanup = std::get_if<CleanupRequest>(&body)) return Reply(id, number, agent_.images().Cleanup(*cleanup));
  if (const auto* pending = std::get_if<PendingRequest>(&body)) return Reply(id, number, agent_.images().PendingOf(*pending));
  if (const auto* retain = std::get_if<RetainRequest>(&body)) {
    Job* job = agent_.FindJob(retain->store_id, retain->job);
    if (job != nullptr) agent_.publish().Retain(*job, retain->name);
    return ReplyStatus(id, number, Status::Ok());
  }
  if (std::holds_alternative<StatusRequest>(body)) return Reply(id, number, StatusReply{StatusJson(agent_)});
  if (const auto* halt = std::get_if<HaltRequest>(&body)) return Reply(id, number, HaltReply{agent_.calls().Halt(*halt)});
  if (const auto* shutdown = std::get_if<ShutdownRequest>(&body)) {
    agent_.Leave(shutdown->when_drained);
    return ReplyStatus(id, number, Status::Ok());
  }
  if (std::holds_alternative<OpenImageRequest>(body) || std::holds_alternative<CloseImageRequest>(body) ||
      std::holds_alternative<OpenWindowRequest>(body) || std::holds_alternative<ShowRequest>(body) ||
      std::holds_alternative<MembersRequest>(body) || std::holds_alternative<RestoredRequest>(body) ||
      std::holds_alternative<GoodbyeRequest>(body)) {
    return HandleSessionRequest(id, message);
  }
  ReplyStatus(id, number, Status(Code::kInvalidArgument, "the agent is not asked such a thing"));
}

}  // namespace kedge
