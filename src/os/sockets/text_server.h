// Serves one text to whoever asks, in as much of HTTP/1.0 as monitors and curl need: for metrics. Unix socket and, when
// asked, a loopback TCP port; never another address. Requests are read up to a bound and not looked at; connections are
// few and short, and those that stay silent are closed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "os/events/event_loop.h"

namespace kedge::os {

class TextServer {
 public:
  // `content` is called on the loop's thread for each request. The loop must outlive the server.
  TextServer(EventLoop& loop, std::function<std::string()> content);
  ~TextServer();  // removes the unix socket
  TextServer(const TextServer&) = delete;
  TextServer& operator=(const TextServer&) = delete;

  // Replaces what a dead process left there: the caller owns the folder.
  Status ListenUnix(const std::string& path);
  // 127.0.0.1 only.
  Status ListenLoopback(uint16_t port);

 private:
  struct Connection {
    UniqueFd fd;
    EventLoop::WatchId watch = 0;
    EventLoop::TimerId timer = 0;
    size_t request_bytes = 0;
    std::string request_end;  // its last bytes
    std::string answer;
    size_t sent = 0;
  };
  struct Listener {
    UniqueFd fd;
    EventLoop::WatchId watch = 0;
  };
  Status Listen(UniqueFd fd);
  void Accept(int fd);
  void OnReady(uint64_t id, Readiness ready);
  void Close(uint64_t id);

  EventLoop& loop_;
  const std::function<std::string()> content_;
  std::vector<Listener> listeners_;
  std::string unix_path_;
  uint64_t unix_inode_ = 0;  // of the file at unix_path_
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  uint64_t last_id_ = 0;
};

}  // namespace kedge::os
