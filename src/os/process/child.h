// Children of a launcher: started with its folder, streams and environment, ended by the kernel when it dies, and waited for.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "os/files/unique_fd.h"

namespace kedge::os {

struct ChildOptions {
  std::string program;                                   // a path, or a name found on PATH
  std::vector<std::string> arguments;                    // without the program's name
  std::vector<std::pair<std::string, std::string>> set;  // environment variables, besides this process's
  std::vector<int> descriptors;                          // stay open in the child, under the same numbers
  // All that it reads from its standard input; nothing: it has this process's.
  std::optional<std::string> input;
};

struct ChildEnd {
  int exit_code = 0;
  int signal = 0;  // 0: it has exited
};

// One child process. It is killed with the thread that started it, which is therefore the program's first. Not thread safe.
class Child {
 public:
  // Returns when the program runs; kNotFound and the like name it. Signals are as the system has them at first.
  static Result<Child> Start(const ChildOptions& options);
  Child(Child&&) = default;
  Child& operator=(Child&&) = default;

  pid_t process_id() const { return process_id_; }
  // Readable when the process has ended (pidfd_open), also after Reap.
  int descriptor() const { return pidfd_.get(); }
  // SIGKILL; nothing when it has ended.
  void Kill() const;
  // How it has ended; waits for that. Its id belongs to nobody else until Reap.
  ChildEnd End() const;
  // Lets go of the id of a process that has ended; waits for that. The last call.
  void Reap() const;

 private:
  Child(pid_t process_id, UniqueFd pidfd) : process_id_(process_id), pidfd_(std::move(pidfd)) {}
  pid_t process_id_;
  UniqueFd pidfd_;
};

}  // namespace kedge::os
