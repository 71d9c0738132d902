// What fmirun has on each node: it starts the node's ranks, tells fmirun at once when one ends, and what they write on the board,
// and writes on it what fmirun says of the other nodes. It decides nothing.
//
// When fmirun is gone, and has said that a successor will find this task, the ranks run on, and what befalls them waits. The task
// looks whether only the connection has ended: fmirun, if it lives, says then that the node has been given up. A successor proves
// the job's secret and a higher number than any before, is told all, and is obeyed from then on. When none comes, the ranks end.
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

  // Until fmirun says so, or is gone for good. kUnavailable: it was never there; kTimeout: no successor has come.
  Status Run();

 private:
  struct Rank {
    std::optional<os::Child> child;  // until its id may be given away
    os::EventLoop::WatchId watch = 0;
    uint32_t start = 0;
    std::optional<ControlMessage> ended;  // what fmirun is told of its end
    ControlMessage told;                  // its row
  };
  Task(TaskOptions options, Board board, std::unique_ptr<os::EventLoop> loop);

  Status Connect();
  // For successors of fmirun: where.
  Result<os::TcpEndpoint> Listen();
  void Accept();
  void OnMessage(const ControlMessage& message);
  void OnOpened();
  void OnGone(const Status& why);
  void OnSuccessor(ControlLink* link);
  // Everything that fmirun is told of this node, anew.
  void Report();
  // Without fmirun.
  bool is_orphan() const { return awaiting_.has_value(); }
  void AskFormer();
  void EndWait();
  void Start(const ControlMessage& message);
  void OnEnd(uint32_t rank);
  void NoteEnd(uint32_t rank, const ControlMessage& ended);
  void Forget(uint32_t rank);
  void KillAll();
  // Tells fmirun what is new on the board.
  void Tell();

  const TaskOptions options_;
  Board board_;
  std::unique_ptr<os::EventLoop> loop_;
  std::unique_ptr<ControlLink> link_;
  os::TcpEndpoint fmirun_;  // where it listens
  uint32_t number_ = 1;     // of this fmirun
  bool outlives_ = false;   // fmirun
  std::optional<os::TcpListener> listener_;
  os::EventLoop::WatchId accepting_ = 0;
  std::vector<std::unique_ptr<ControlLink>> callers_;  // who may be a successor, or has been replaced
  std::optional<os::EventLoop::TimerId> awaiting_;     // a successor, until then
  os::EventLoop::TimerId asking_ = 0;
  std::unique_ptr<ControlLink> former_;  // asks the former fmirun whether it lives
  std::vector<Rank> ranks_;
  ControlMessage told_shared_;
  Status ended_;  // why this task ends
};

}  // namespace kedge::fmi
