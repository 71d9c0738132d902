// See rank_process.h.
#include "tests/histories/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace kedge::histories {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Answer ParseAnswer(const std::string& line) {
  Answer answer;
  Tag tag;
  std::istringstream words(line);
  words >> answer.code >> answer.version >> tag.rank >> tag.version >> tag.launch >> tag.taking >> answer.partial;
  std::getline(words >> std::ws, answer.message);
  if (tag.rank >= 0) answer.content = tag;
  return answer;
}

}  // namespace

RankProcess::RankProcess(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment,
                         const std::string& log_path) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) std::abort();
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, STDERR_FILENO);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  input_ = to[1];
  output_ = from[0];
}

RankProcess::~RankProcess() {
  Kill();
  close(input_);
  close(output_);
}

void RankProcess::Tell(const std::string& line) {
  const std::string text = line + "\n";
  // One that has died is noticed when it is heard.
  if (write(input_, text.data(), text.size()) < 0) return;
}

Answer RankProcess::Hear(milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  for (;;) {
    const size_t end = heard_.find('\n');
    if (end != std::string::npos) {
      const std::string line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return ParseAnswer(line);
    }
    Answer none;
    none.came = false;
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    pollfd ready{output_, POLLIN, 0};
    const int polled = poll(&ready, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (polled <= 0) {
      none.message = "no answer within " + std::to_string(patience.count()) + " ms";
      return none;
    }
    char buffer[4096];
    const ssize_t got = read(output_, buffer, sizeof buffer);
    if (got <= 0) {
      int status = 0;
      waitpid(pid_, &status, 0);
      pid_ = -1;
      none.message = WIFSIGNALED(status) ? "the rank died of signal " + std::to_string(WTERMSIG(status))
                                         : "the rank exited with " + std::to_string(WEXITSTATUS(status));
      return none;
    }
    heard_.append(buffer, static_cast<size_t>(got));
  }
}

void RankProcess::Signal(int signal) {
  if (pid_ > 0) kill(-pid_, signal);
}

void RankProcess::Kill() {
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace kedge::histories
