// See child_process.h.
#include "tests/support/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace kedge::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPause{2};

// All that `pid` has started, children and theirs: launchers put their ranks into groups of their own.
void AddDescendants(pid_t pid, std::vector<pid_t>* found) {
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", ignored)) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) {
      found->push_back(child);
      AddDescendants(child, found);
    }
  }
}

bool IsGone(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(") ");
  return name_end == std::string::npos || text[name_end + 2] == 'Z';
}

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> command, const std::map<std::string, std::string>& environment,
                           std::string output_path)
    : output_path_(std::move(output_path)) {
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;
  setpgid(0, 0);
  const int output = open(output_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  for (const auto& [name, value] : environment) {
    if (value.empty()) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  execvp(arguments[0], arguments.data());
  _exit(127);
}

ChildProcess::~ChildProcess() {
  Kill();
}

std::optional<ProcessResult> ChildProcess::Wait(milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  while (!result_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      result_ = WIFEXITED(status) ? ProcessResult{true, WEXITSTATUS(status), 0} : ProcessResult{false, -1, WTERMSIG(status)};
      break;
    }
    if (steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(kPause);
  }
  return result_;
}

bool ChildProcess::Succeeds(milliseconds timeout) {
  const auto result = Wait(timeout);
  if (result && result->exited && result->exit_code == 0) return true;
  ADD_FAILURE() << (result ? result->exited ? "exit code " + std::to_string(result->exit_code)
                                            : "signal " + std::to_string(result->signal)
                           : std::string("still running"))
                << "; output:\n"
                << Output();
  return false;
}

std::vector<pid_t> ChildProcess::Descendants() const {
  std::vector<pid_t> found;
  if (!result_) AddDescendants(pid_, &found);
  return found;
}

void ChildProcess::Signal(int signal) {
  if (!result_) kill(pid_, signal);
}

void ChildProcess::Kill() {
  if (pid_ <= 0) return;
  const std::vector<pid_t> descendants = Descendants();
  kill(-pid_, SIGKILL);
  for (pid_t descendant : descendants) kill(descendant, SIGKILL);
  while (!Wait(milliseconds(1000))) kill(pid_, SIGKILL);
  kill(-pid_, SIGKILL);  // those that it had just started
  for (pid_t descendant : descendants) {
    for (int i = 0; i < 1000 && !IsGone(descendant); ++i) std::this_thread::sleep_for(kPause);
  }
}

std::string ChildProcess::Output() const {
  std::ifstream file(output_path_);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool ChildProcess::WaitForOutput(const std::string& text, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  while (Output().find(text) == std::string::npos) {
    if (Wait(milliseconds(0)) || steady_clock::now() >= deadline) return Output().find(text) != std::string::npos;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace kedge::testing
