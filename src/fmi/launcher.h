// fmirun: starts the ranks of a job on this node, sees each end at once, and starts again who was killed.
//
// A rank that a signal has ended is a failure: the next epoch begins, which all ranks see in their next communication, and the
// rank is started again while the others live. Where nobody can go back (there is no checkpoint yet, or a rank cannot go on), all
// are ended and started again. A rank that exits before FMI_Finalize has decided so itself, and ends the job.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "fmi/board.h"
#include "os/events/event_fd.h"
#include "os/events/event_loop.h"
#include "os/process/child.h"

namespace kedge::fmi {

struct LaunchOptions {
  uint32_t ranks = 1;
  uint64_t interval = 1;
  uint32_t failures_max = 10;  // without a new checkpoint between them
  Duration timeout = std::chrono::minutes(10);
  std::vector<std::string> command;
};

class Launcher {
 public:
  static Result<std::unique_ptr<Launcher>> Create(LaunchOptions options);
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Until the job has ended: the exit code. `stop` ends it from outside.
  int Run(const os::EventFd& stop);

 private:
  struct Rank {
    std::optional<os::Child> child;  // while it runs
    os::EventLoop::WatchId watch = 0;
    uint32_t starts = 0;
  };
  Launcher(LaunchOptions options, Board board, std::unique_ptr<os::EventLoop> loop);

  void StartAll();
  void Start(uint32_t rank, bool joins);
  void OnEnd(uint32_t rank);
  void OnExit(uint32_t rank, int code);
  void OnFailure(uint32_t rank, const std::string& what);
  // Takes the ended child away.
  void Forget(uint32_t rank);
  void KillAll();
  void RelaunchAll();
  // Whether the job is in its course again; ends it when that takes too long.
  void Look();
  void EndJob(int code, const std::string& why);
  bool HasBegun() const;
  bool AnyHasEnded() const;

  const LaunchOptions options_;
  Board board_;
  std::unique_ptr<os::EventLoop> loop_;
  std::vector<Rank> ranks_;
  int exit_code_ = 0;
  bool has_ended_ = false;
  uint32_t failures_ = 0;
  uint64_t progress_ = 0;  // at the last failure
  int64_t interrupted_ns_ = 0;
  bool is_interrupted_ = true;  // not all ranks run
};

}  // namespace kedge::fmi
