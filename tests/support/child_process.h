// A program that a test starts: killed when and as the test says, and in any case gone when the test ends.
//
// What it starts in turn (the ranks of an mpirun) goes with it. Standard
// output and error go to a file, which messages of failed tests show.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kedge::testing {

struct ProcessResult {
  bool exited = false;  // else ended by `signal`
  int exit_code = -1;
  int signal = 0;
};

class ChildProcess {
 public:
  // `environment` is added to this process's own; an empty value removes the variable.
  ChildProcess(std::vector<std::string> command, const std::map<std::string, std::string>& environment, std::string output_path);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Nothing when it still runs after `timeout`.
  std::optional<ProcessResult> Wait(std::chrono::milliseconds timeout);
  // Waits, and fails the test (with the output) unless it exits with 0 in time.
  bool Succeeds(std::chrono::milliseconds timeout);
  // What it has started that still runs, and what these have started.
  std::vector<pid_t> Descendants() const;
  void Signal(int signal);
  // With SIGKILL, together with all that it has started, and waits until they are gone.
  void Kill();
  // What it has written so far.
  std::string Output() const;
  // Waits until the output holds `text`; false at the timeout or when the program ended without it.
  bool WaitForOutput(const std::string& text, std::chrono::milliseconds timeout);

 private:
  pid_t pid_ = -1;
  std::optional<ProcessResult> result_;
  std::string output_path_;
};

}  // namespace kedge::testing
