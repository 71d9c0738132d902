// The agent's socket: who connects, what they ask, and the answers.
//
// A client is a process of this user (checked by the kernel's credentials). Its first message is Hello or ToolHello; a
// protocol other than ours is refused with both numbers. Whatever does not decode ends that connection and nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "os/events/event_loop.h"
#include "os/sockets/unix_socket.h"
#include "session/messages.h"

namespace kedge {

class AgentCore;
class Bringer;
class Halts;
class ImageTable;
class LocalRetention;
class MeasurePeers;
class OpenImages;
class Peers;
class PendingImages;
class Publisher;
class Rebuilder;
class Sessions;
class SharedReads;
class Waiters;
class Windows;

// What only the daemon can do.
struct DaemonCalls {
  std::function<std::string()> status;           // JSON
  std::function<void(bool when_drained)> leave;  // at once, or when nothing is pending any more
};

class Server {
 public:
  Server(AgentCore& core, DaemonCalls daemon, Bringer& bringer, Halts& halts, ImageTable& images, MeasurePeers& measure_peers,
         OpenImages& open_images, Peers& peers, PendingImages& pending, Publisher& publisher, Rebuilder& rebuilder,
         LocalRetention& retention, Sessions& sessions, SharedReads& shared_reads, Waiters& waiters, Windows& windows)
      : core_(core),
        daemon_(std::move(daemon)),
        bringer_(bringer),
        halts_(halts),
        windows_(windows),
        images_(images),
        retention_(retention),
        pending_(pending),
        open_images_(open_images),
        measure_peers_(measure_peers),
        peers_(peers),
        publisher_(publisher),
        rebuilder_(rebuilder),
        sessions_(sessions),
        shared_reads_(shared_reads),
        waiters_(waiters) {}
  ~Server();

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

  // Nothing happens when the connection is gone.
  void Reply(uint64_t connection, uint64_t number, const Message& message, std::vector<os::UniqueFd> descriptors = {});
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
  void Admit(uint64_t id, uint64_t number, const Hello& hello);
  void HandleSessionRequest(uint64_t id, const NumberedMessage& message);
  void OpenImage(uint64_t id, uint64_t number, const OpenImageRequest& request);
  void Measure(uint64_t id, uint64_t number, const MeasureRequest& request);
  void ReplyStatus(uint64_t id, uint64_t number, const Status& status);
  Client* Find(uint64_t id);

  AgentCore& core_;
  const DaemonCalls daemon_;
  Bringer& bringer_;
  Halts& halts_;
  Windows& windows_;
  ImageTable& images_;
  LocalRetention& retention_;
  PendingImages& pending_;
  OpenImages& open_images_;
  MeasurePeers& measure_peers_;
  Peers& peers_;
  Publisher& publisher_;
  Rebuilder& rebuilder_;
  Sessions& sessions_;
  SharedReads& shared_reads_;
  Waiters& waiters_;
  std::optional<os::UnixListener> listener_;
  os::EventLoop::WatchId listener_watch_ = 0;
  std::map<uint64_t, std::unique_ptr<Client>> clients_;
  uint64_t last_connection_ = 0;
};

}  // namespace kedge
