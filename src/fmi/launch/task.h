// What fmirun has on each node: it starts the node's ranks, tells fmirun at once when one ends, and what they write on the board,
// and writes on it what fmirun says of the other nodes. It decides nothing. When fmirun is gone, its ranks end with it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "fmi/board.h"
#include "fmi/launch/control.h"
#include "fmi/launch/task_options.h"
#include "os/events/event_loop.h"
#include "os/process/child.h"

namespace kedge::fmi {

class Task {
 public:
  static Result<std::unique_ptr<Task>> Create(TaskOptions options);
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // Until fmirun is gone. kUnavailable: it was never there.
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
  void OnGone(const Status& why);
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
  Status ended_;  // why fmirun was never reached
};

}  // namespace kedge::fmi
