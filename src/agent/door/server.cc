#include "agent/door/server.h"

#include <fmt/format.h>

#include "agent/door/sessions.h"
#include "agent/door/waiters.h"
#include "agent/peers/peers.h"
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

void Server::Send(uint64_t id, uint64_t number, const Message& answer, std::vector<os::UniqueFd> descriptors) {
  Client* client = Find(id);
  if (client == nullptr) return;
  const Buffer frame = EncodeMessage(number, answer);
  Status queued = client->socket.Queue(AsText(frame), std::move(descriptors));
  if (!queued.ok()) {
    // Not now: whoever asked is in the middle of using the connection.
    core_.loop().Post([this, id] { Disconnect(id); });
    return;
  }
  if (client->socket.has_unsent()) (void)core_.loop().ChangeInterest(client->watch, os::EventLoop::Interest::kReadWrite);
}

void Server::HandleGreeting(uint64_t id, const NumberedMessage& message) {
  const Question question(*this, id, message.number);
  if (const auto* tool = std::get_if<ToolHello>(&message.message)) {
    if (tool->protocol != kProtocolVersion) return question.Answer(WrongProtocol(tool->protocol, tool->build));
    Find(id)->greeted = true;
    return question.Answer(ToolWelcome{BuildName(), core_.settings().node, core_.control().agent_pid});
  }
  if (const auto* known = std::get_if<KnownJobsRequest>(&message.message)) {
    if (known->protocol != kProtocolVersion) return question.Answer(WrongProtocol(known->protocol, known->build));
    return core_.requests().Handle(message.message, nullptr, question);
  }
  const auto* hello = std::get_if<Hello>(&message.message);
  if (hello == nullptr) return question.Answer(Status(Code::kFailedPrecondition, "the first message must be a Hello"));
  if (hello->protocol != kProtocolVersion) return question.Answer(WrongProtocol(hello->protocol, hello->build));
  if (!hello->NeedsPeers()) return Admit(question, *hello);
  // On a busy machine it takes seconds until the network is open.
  const auto patience = core_.loop().AddPeriodic(kPatiencePeriod, [question] { question.Answer(PatienceReply{}); });
  peers_.OpenThen([this, question, hello = *hello, patience] {
    core_.loop().CancelTimer(patience);
    Admit(question, hello);
  });
}

void Server::Admit(const Question& question, const Hello& hello) {
  Client* client = Find(question.connection());
  if (client == nullptr) return;
  if (client->greeted) return question.Answer(Status(Code::kFailedPrecondition, "there was a Hello before"));
  auto admission = sessions_.Attach(hello, client->process_id, question.connection());
  if (!admission.ok()) {
    LogWarning("agent", "process {} is refused: {}", client->process_id, admission.status().ToString());
    return question.Answer(admission.status());
  }
  client->greeted = true;
  client->session_id = admission->session_id;
  question.Answer(admission->welcome, std::move(admission->descriptors));
}

void Server::Handle(uint64_t id, const NumberedMessage& message) {
  if (!Find(id)->greeted) return HandleGreeting(id, message);
  // What came through the mailbox before this question is part of the answer.
  sessions_.DrainAll(/*may_wait=*/true);
  const Client* client = Find(id);
  if (client == nullptr) return;
  core_.requests().Handle(message.message, core_.sessions().Find(client->session_id), Question(*this, id, message.number));
}

}  // namespace kedge
