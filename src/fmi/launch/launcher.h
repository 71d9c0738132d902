// fmirun: has a task started on each node (task.h), is told of each end at once, and has started again who was killed.
//
// Tasks of this machine are its children; on others a shell (ssh, srun) starts them, and its end is taken for the node's.
// A rank that a signal has ended is a failure: the next epoch begins, which all ranks see in their next communication, and the
// rank is started again while the others live. A node whose task has ended, or cannot be reached, has lost all its ranks: a spare
// node gets them. Where nobody can go back (there is no checkpoint yet, or a rank cannot go on), all are ended and started again.
// A rank that exits before FMI_Finalize has decided so itself, and ends the job.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "fmi/launch/control.h"
#include "fmi/launch/silence.h"
#include "fmi/launch/task_options.h"
#include "fmi/phases.h"
#include "net/authentication.h"
#include "os/events/event_fd.h"
#include "os/events/event_loop.h"
#include "os/process/child.h"
#include "os/sockets/tcp_socket.h"

namespace kedge::fmi {

struct LaunchOptions {
  uint32_t ranks = 1;
  std::vector<std::string> nodes;  // names; empty: this one, whatever its name
  bool is_virtual = false;         // they are names on one machine (KEDGE_NODE)
  // What starts a command on a node when the node and the command's words follow, for sh: "ssh". Empty: all is on this machine.
  std::string shell;
  uint32_t address = 0;  // of this machine, for nodes that a shell reaches; 0: the one from which they find it reaches them
  uint32_t spares = 0;   // the last ones of them, without ranks at first
  uint64_t interval = 1;
  uint32_t failures_max = 10;  // without a new checkpoint between them
  Duration timeout = std::chrono::minutes(10);
  std::string program;               // fmirun itself
  std::vector<std::string> command;  // of the ranks
};

class Launcher {
 public:
  static Result<std::unique_ptr<Launcher>> Create(LaunchOptions options);
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Until the job has ended: the exit code. `stop` ends it from outside.
  int Run(const os::EventFd& stop);

 private:
  struct Node {
    std::string name;
    std::optional<os::Child> task;
    os::EventLoop::WatchId watch = 0;
    ControlLink* link = nullptr;  // once the task has answered
    bool is_dead = false;
    uint64_t progress = 0;  // as its board has it
  };
  struct Rank {
    size_t node = 0;
    uint32_t starts = 0;
    bool runs = false;
    ControlMessage row;
  };
  Launcher(LaunchOptions options, std::string folder, std::unique_ptr<os::EventLoop> loop, os::TcpListener listener);

  Status StartTask(size_t node);
  TaskOptions TaskOf(size_t node) const;
  // Run on the node by the shell.
  os::ChildOptions OnNode(size_t node, std::initializer_list<std::string> words) const;
  void Accept();
  void OnOpened(ControlLink* link);
  // The ranks, once each node has a task or is lost.
  void StartWhenReady();
  // Where nodes do not reach each other: why.
  Status CheckAddresses() const;
  void OnMessage(const ControlLink* link, const ControlMessage& message);
  void OnRow(const ControlMessage& message);
  void OnLost(uint32_t rank, uint32_t epoch);
  void OnEnd(const ControlMessage& ended);
  void OnExit(uint32_t rank, int code);
  void OnNodeEnd(size_t node, const std::string& why);
  std::string WhyTaskEnded(size_t node) const;
  // A node without ranks, that is there.
  std::optional<size_t> FindSpare() const;
  // The job goes on in a new epoch, in which these ranks are started again.
  void OnFailure(const std::vector<uint32_t>& ranks, const std::string& what);

  // Ranks are spread in blocks over the nodes that are no spares.
  void Spread();
  void StartAll();
  void Start(const std::vector<uint32_t>& ranks, bool joins);
  void RelaunchAll();
  // The next epoch, or that the job has finished, for all nodes.
  void BeginEpoch();
  void TellState();
  void SendAll(const ControlMessage& message);
  // Whether the job is in its course again; ends it when that takes too long.
  void Look();
  void EndJob(int code, const std::string& why);
  void EndTasks();
  void EndTask(Node* node);
  bool HasBegun() const;
  std::vector<Place> places() const;
  size_t NodeOf(const ControlLink* link) const;

  const LaunchOptions options_;
  const std::string folder_;
  const net::Secret secret_ = net::Secret::Generate();
  std::unique_ptr<os::EventLoop> loop_;
  const os::TcpListener listener_;
  std::optional<Silence> silence_;  // of nodes that a shell reaches: of what is on this machine nobody else knows more
  std::vector<std::unique_ptr<ControlLink>> links_;
  std::vector<Node> nodes_;
  std::vector<Rank> ranks_;
  bool has_started_ = false;  // the ranks, since all tasks have answered
  uint32_t epoch_ = 1;
  bool has_finished_ = false;
  bool has_checkpoint_ = false;
  bool relaunch_ = false;
  uint64_t progress_ = 0;
  int exit_code_ = 0;
  bool has_ended_ = false;
  uint32_t failures_ = 0;
  uint64_t progress_at_failure_ = 0;
  int64_t interrupted_ns_ = 0;
  bool is_interrupted_ = true;  // not all ranks run
};

}  // namespace kedge::fmi
