// What fmirun has on each node: it starts the node's ranks, tells fmirun at once when one ends, and what they write on the board,
// and writes on it what fmirun says of the other nodes. It decides nothing. When fmirun is gone, its ranks end with it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "fmi/board.h"
#include "fmi/control.h"
#include "net/authentication.h"
#include "os/events/event_loop.h"
#include "os/process/child.h"
#include "os/sockets/tcp_socket.h"

namespace kedge::fmi {

struct TaskOptions {
  uint32_t node = 0;
  os::TcpEndpoint fmirun;
  net::Secret secret;
  uint32_t ranks = 1;
  bool is_alone = true;  // there is no other node
  uint64_t interval = 1;
  std::vector<std::string> command;
};

class Task {
 public:
  static Result<std::unique_ptr<Task>> Create(TaskOptions options);
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // Until fmirun is gone.
  Status Run();

 private:
  struct Rank {
    std::optional<os::Child> child;  // until its id may be given away
    os::EventLoop::WatchId watch = 0;
    uint32_t start = 0;
    bool has_ended = false;
    ControlMessage told;  // its row
  };
  Task(TaskOptions options, Board board, std::unique_ptr<os::EventLoop> loop);

  void OnMessage(const ControlMessage& message);
  void Start(const ControlMessage& message);
  void OnEnd(uint32_t rank);
  void Forget(uint32_t rank);
  void KillAll();
  // Tells fmirun what is new on the board.
  void Tell();

  const TaskOptions options_;
  Board board_;
  std::unique_ptr<os::EventLoop> loop_;
  std::unique_ptr<ControlLink> link_;
  std::vector<Rank> ranks_;
  ControlMessage told_shared_;
};

}  // namespace kedge::fmi
