// Children of a launcher: started with its folder, streams and environment, ended by the kernel when it dies unless they are to
// outlive it, and waited for.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "os/files/unique_fd.h"
#include "os/process/process.h"

namespace kedge::os {

struct ChildOptions {
  std::string program;                                   // a path, or a name found on PATH
  std::vector<std::string> arguments;                    // without the program's name
  std::vector<std::pair<std::string, std::string>> set;  // environment variables, besides this process's
  std::vector<int> descriptors;                          // stay open in the child, under the same numbers
  // All that it reads from its standard input; nothing: it has this process's.
  std::optional<std::string> input;
  bool keeps_output = false;          // what it writes to its standard output is kept (Output)
  bool outlives = false;              // the death of this process does not end it
  bool ignores_broken_pipes = false;  // it writes on where nobody reads any more, and SIGPIPE does not end it
};

struct ChildEnd {
  int exit_code = 0;
  int signal = 0;  // 0: it has exited
};

// One child process. Unless it is to outlive it, it is killed with the thread that started it, which is therefore the program's
// first. Not thread safe.
class Child {
 public:
  // Returns when the program runs; kNotFound and the like name it. Signals are as the system has them at first.
  static Result<Child> Start(const ChildOptions& options);
  // One that another process has started, which has died. How it ends is not known here: End and Reap say and do nothing.
  static Result<Child> Adopt(const ProcessIdentity& process);
  Child(Child&&) = default;
  Child& operator=(Child&&) = default;

  pid_t process_id() const { return process_id_; }
  // Nothing where that cannot be read.
  ProcessIdentity identity() const;
  // Readable when the process has ended (pidfd_open), also after Reap.
  int descriptor() const { return pidfd_.get(); }
  bool HasEnded() const;
  // SIGKILL; nothing when it has ended.
  void Kill() const;
  // How it has ended; waits for that. Its id belongs to nobody else until Reap.
  ChildEnd End() const;
  // What it has written to its standard output until now, where that is kept: at most `bytes_max` of it.
  Result<std::string> Output(size_t bytes_max) const;
  // Lets go of the id of a process that has ended; waits for that. The last call.
  void Reap() const;

 private:
  Child(pid_t process_id, UniqueFd pidfd, UniqueFd output, bool is_own)
      : process_id_(process_id), is_own_(is_own), pidfd_(std::move(pidfd)), output_(std::move(output)) {}
  pid_t process_id_;
  bool is_own_;
  UniqueFd pidfd_;
  UniqueFd output_;
};

}  // namespace kedge::os
