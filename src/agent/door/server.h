// The agent's socket: who connects, and the way of questions and answers. Modules answer (tables/client_requests.h).
//
// A client is a process of this user (checked by the kernel's credentials). Its first message is Hello or ToolHello; a
// protocol other than ours is refused with both numbers. Whatever does not decode ends that connection and nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "agent/tables/client_requests.h"
#include "os/events/event_loop.h"
#include "os/sockets/unix_socket.h"
#include "session/messages.h"

namespace kedge {

class AgentCore;
class Peers;
class Sessions;
class Waiters;

class Server : public AnswerSender {
 public:
  Server(AgentCore& core, Peers& peers, Sessions& sessions, Waiters& waiters)
      : core_(core), peers_(peers), sessions_(sessions), waiters_(waiters) {}
  ~Server() override;

  // kBusy: another agent serves this run folder.
  Status Listen();
  Status Serve();
  // Whether clients that go to the run folder still come here.
  bool IsReachable() const { return listener_->IsReachable(); }
  // The socket and its lock go.
  void StopListening();
  // Ends all connections. REQUIRES: StopListening was called.
  void Disconnect();
  // Who is connected at the moment is taken before the agent decides that it is idle.
  void AcceptAll();

  void Send(uint64_t connection, uint64_t number, const Message& answer, std::vector<os::UniqueFd> descriptors) override;
  bool IsConnected(uint64_t connection) const override { return clients_.contains(connection); }
  void Disconnect(uint64_t connection);
  // Its session has ended; the connection stays until the client closes it.
  void ForgetSession(uint64_t connection);
  size_t clients() const { return clients_.size(); }

 private:
  struct Client {
    explicit Client(os::UnixSocket connected) : socket(std::move(connected)) {}
    os::UnixSocket socket;
    os::EventLoop::WatchId watch = 0;
    int32_t process_id = 0;
    uint32_t session_id = 0;
    bool greeted = false;
  };
  void OnReady(uint64_t id, os::Readiness ready);
  void Receive(uint64_t id);
  void Handle(uint64_t id, const NumberedMessage& message);
  void HandleGreeting(uint64_t id, const NumberedMessage& message);
  void Admit(const Question& question, const Hello& hello);
  Client* Find(uint64_t id);

  AgentCore& core_;
  Peers& peers_;
  Sessions& sessions_;
  Waiters& waiters_;
  std::optional<os::UnixListener> listener_;
  os::EventLoop::WatchId listener_watch_ = 0;
  std::map<uint64_t, std::unique_ptr<Client>> clients_;
  uint64_t last_connection_ = 0;
};

}  // namespace kedge
