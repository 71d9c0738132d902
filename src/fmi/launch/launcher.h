// fmirun: has a task started on each node (task.h), is told of each end at once, and has started again who was killed.
//
// Tasks of this machine are its children; on others a shell (ssh, srun) starts them, and its end is taken for the node's.
// A rank that a signal has ended is a failure: the next epoch begins, which all ranks see in their next communication, and the
// rank is started again while the others live. A node whose task has ended, or cannot be reached, has lost all its ranks: a spare
// node gets them, or one that a command is asked for (late_nodes.cc). Where nobody can go back (there is no checkpoint yet, or a
// rank cannot go on), all are ended and started again. A rank that exits before FMI_Finalize has decided so itself, and ends the
// job.
//
// What a successor needs is written before anything follows from it (job_state.h). A successor reaches the tasks, which tell it
// how their ranks are, and goes on from there: what has befallen ranks and nodes meanwhile it takes for failures of this moment,
// and what its predecessor has begun, and some tasks have not been told, it begins again. Whoever finds itself replaced leaves,
// and touches nothing.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "fmi/launch/control.h"
#include "fmi/launch/job_state.h"
#include "fmi/launch/launch_options.h"
#include "fmi/launch/node_request.h"
#include "fmi/launch/silence.h"
#include "fmi/launch/state_folder.h"
#include "fmi/launch/task_options.h"
#include "fmi/phases.h"
#include "net/authentication.h"
#include "os/events/event_fd.h"
#include "os/events/event_loop.h"
#include "os/process/child.h"
#include "os/sockets/tcp_socket.h"

namespace kedge::fmi {

class Launcher {
 public:
  // Of fmirun that finds itself replaced.
  static constexpr int kReplacedExitCode = 79;

  // `folder`: where what a successor needs is left; without one, tasks end with this fmirun. `former`: what another fmirun has
  // left there, whose job goes on.
  static Result<std::unique_ptr<Launcher>> Create(LaunchOptions options, std::optional<StateFolder> folder,
                                                  std::optional<JobState> former);
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // A successor has found that all tasks have died together with their fmirun.
  bool has_nothing_left() const { return has_nothing_left_; }
  // Until the job has ended: the exit code. `stop` ends it from outside.
  int Run(const os::EventFd& stop);

 private:
  struct Node {
    std::string name;                      // of one that is asked for: empty until it is there
    std::string shell;                     // that reaches it; empty: none
    std::unique_ptr<NodeRequest> request;  // until it is there
    std::optional<os::Child> task;
    int64_t task_begun_ns = 0;
    os::EventLoop::WatchId watch = 0;
    ControlLink* link = nullptr;  // once the task has answered, or is to answer a successor
    os::TcpEndpoint endpoint;     // where the task awaits a successor; port 0: nowhere
    bool is_ready = false;        // the task has said what there is to say before ranks are started
    bool is_dead = false;
    uint64_t progress = 0;  // as its board has it
  };
  struct Rank {
    size_t node = 0;
    uint32_t starts = 0;
    bool runs = false;
    bool joins = false;  // others, which run already
    ControlMessage row;
    std::optional<ControlMessage> ended;  // of one that has ended under a former fmirun
  };
  Launcher(LaunchOptions options, std::string folder, std::unique_ptr<os::EventLoop> loop, os::TcpListener listener,
           std::optional<StateFolder> state_folder, std::optional<JobState> former);

  // A task there, which is new, or a former fmirun's.
  Status BeginNode(size_t node);
  Status StartTask(size_t node);
  Status Reach(size_t node);
  void OnUnreached(size_t node, const Status& why);
  // Takes for its own what a former fmirun has left, as far as no task needs to be asked.
  void Adopt(const JobState& former);
  TaskOptions TaskOf(size_t node) const;
  // Run on the node by the shell.
  os::ChildOptions OnNode(size_t node, std::initializer_list<std::string> words) const;
  void Accept();
  void OnOpened(ControlLink* link);
  // The ranks, once each node has a task or is lost.
  void StartWhenReady();
  // Where nodes do not reach each other: why.
  Status CheckAddresses() const;
  // The task there has said what there is to say at first.
  void OnReady(size_t node);
  // A node more, which is asked for, and has ranks before it is there. Nothing: nobody can be asked.
  std::optional<size_t> AddLateNode();
  Status Ask(size_t node);
  void OnFound(size_t node, const Result<FoundNode>& found);
  // It is there, and its ranks are started.
  void Join(size_t node);
  void OnMessage(const ControlLink* link, const ControlMessage& message);
  // Of a task that tells a successor how it is.
  void OnReport(size_t node, const ControlMessage& message);
  void OnShared(size_t node, const ControlMessage& message);
  // All tasks that live have told how they are: the job goes on.
  void Resume();
  // For ranks whose nodes have died before anybody took over. False: the job has ended for want of them.
  bool FindPlaces();
  void ResumeRanks();
  // From now on the tasks await a successor when this fmirun is gone.
  void Keep();
  void Keep(const Node& node);
  void OnRow(const ControlMessage& message);
  // What a rank has said of itself, to the other nodes.
  void Forward(const ControlMessage& row);
  void FinishWhenAllLeave();
  void OnLost(uint32_t rank, uint32_t epoch);
  void OnEnd(const ControlMessage& ended);
  void OnExit(uint32_t rank, int code);
  void OnNodeEnd(size_t node, const std::string& why);
  std::string WhyTaskEnded(size_t node) const;
  // These get a spare node, or one that is asked for. False: there is none, and the job has ended.
  bool Move(const std::vector<uint32_t>& ranks, bool may_ask, std::string* what);
  // A node without ranks, that is there.
  std::optional<size_t> FindSpare() const;
  // The job goes on in a new epoch, in which these ranks are started again.
  void OnFailure(const std::vector<uint32_t>& ranks, const std::string& what);

  // Ranks are spread in blocks over the nodes that are no spares.
  void Spread();
  std::vector<uint32_t> all_ranks() const;
  std::vector<uint32_t> RanksOf(size_t node) const;
  // These stand behind those that the job was given.
  bool WasAskedFor(size_t node) const { return node >= std::max<size_t>(1, options_.nodes.size()); }
  // They are to be started, and count as that; Start follows once it is noted. `joins`: others run already.
  void Plan(const std::vector<uint32_t>& ranks, bool joins);
  void Start(const std::vector<uint32_t>& ranks);
  void RelaunchAll();
  // The epoch, or that the job has finished, for all nodes.
  void TellState();
  ControlMessage StateMessage() const;
  void SendAll(const ControlMessage& message);
  // Whether the job is in its course again; ends it when that takes too long.
  void Look();
  // Writes what a successor needs now. False: there is one already, so that nothing may follow from it.
  bool Note();
  JobState state() const;
  // Whether another fmirun has taken over: then this one has ended.
  bool LeaveIfReplaced();
  void EndJob(int code, const std::string& why);
  void EndTasks();
  bool HasTasks() const;
  void EndTask(Node* node);
  bool HasBegun() const;
  std::vector<Place> places() const;
  size_t NodeOf(const ControlLink* link) const;
  // From another fmirun, which had begun, and not all of its tasks have told how they are.
  bool is_resuming() const { return former_ && (former_->has_started || former_->has_ended); }

  const LaunchOptions options_;
  const std::string folder_;
  std::optional<StateFolder> state_folder_;
  std::optional<JobState> former_;  // until this fmirun has taken over from one that had begun
  const net::Secret secret_;
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
  std::string why_;  // the job has ended
  bool has_ended_ = false;
  bool is_replaced_ = false;
  bool has_nothing_left_ = false;
  bool is_unnoted_ = false;  // what a successor needs could not be written, and somebody was told so
  uint32_t failures_ = 0;
  uint64_t progress_at_failure_ = 0;
  int64_t interrupted_ns_ = 0;
  bool is_interrupted_ = true;  // not all ranks run
};

}  // namespace kedge::fmi
