#include "os/process/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "os/process/exec_words.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace kedge::os {
namespace {

// In the child, which has one thread, and tells a failure through `report`.
[[noreturn]] void Become(const char* program, char* const* arguments, char* const* environment, const ChildOptions& options,
                         int input, int output, pid_t parent, int report) {
  if (!options.outlives) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // It may have died before.
    if (getppid() != parent) _exit(127);
  }
  for (int number = 1; number < _NSIG; ++number) signal(number, SIG_DFL);
  if (options.ignores_broken_pipes) signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int descriptor : options.descriptors) fcntl(descriptor, F_SETFD, 0);
  if (input >= 0) dup2(input, STDIN_FILENO);
  if (output >= 0) dup2(output, STDOUT_FILENO);
  execvpe(program, arguments, environment);
  const int error = errno;
  (void)!write(report, &error, sizeof error);
  _exit(127);
}

// A file without a name, to be read from its begin: unlike a pipe it takes texts of any length.
Result<UniqueFd> FileWith(const std::string& text) {
  UniqueFd file(memfd_create("child", MFD_CLOEXEC));
  if (!file.valid()) return Status::FromErrno(errno, "memfd_create");
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file.get(), text.data() + done, text.size() - done);
    if (written < 0) return Status::FromErrno(errno, "write");
    done += static_cast<size_t>(written);
  }
  if (lseek(file.get(), 0, SEEK_SET) != 0) return Status::FromErrno(errno, "lseek");
  return file;
}

}  // namespace

Result<Child> Child::Start(const ChildOptions& options) {
  std::vector<std::string> arguments = {options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment = EnvironmentWith(options.set);
  const std::vector<char*> argument_pointers = PointersTo(arguments);
  const std::vector<char*> environment_pointers = PointersTo(environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status::FromErrno(errno, "pipe");
  const UniqueFd reads(ends[0]);
  UniqueFd writes(ends[1]);
  UniqueFd input;
  if (options.input) {
    KEDGE_ASSIGN_OR_RETURN(input, FileWith(*options.input));
  }
  UniqueFd output;
  if (options.keeps_output) {
    KEDGE_ASSIGN_OR_RETURN(output, FileWith(""));
  }
  const pid_t parent = getpid();
  const pid_t process_id = fork();
  if (process_id < 0) return Status::FromErrno(errno, "fork");
  if (process_id == 0) {
    Become(options.program.c_str(), argument_pointers.data(), environment_pointers.data(), options, input.get(), output.get(),
           parent, writes.get());
  }
  writes.Reset();
  // It is not waited for yet, so that the id is its own.
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, process_id, 0)));
  Status status = pidfd.valid() ? Status::Ok() : Status::FromErrno(errno, "pidfd_open");
  int error = 0;
  ssize_t got = 0;
  while ((got = read(reads.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got == sizeof error) status = Status::FromErrno(error, "start " + options.program);
  if (status.ok()) return Child(process_id, std::move(pidfd), std::move(output), /*is_own=*/true);
  kill(process_id, SIGKILL);
  while (waitpid(process_id, nullptr, 0) < 0 && errno == EINTR) {
  }
  return status;
}

Result<Child> Child::Adopt(const ProcessIdentity& process) {
  KEDGE_ASSIGN_OR_RETURN(UniqueFd pidfd, OpenPidfd(process));
  return Child(process.process_id, std::move(pidfd), UniqueFd(), /*is_own=*/false);
}

ProcessIdentity Child::identity() const {
  const auto identity = IdentityOf(process_id_);
  return identity.ok() ? *identity : ProcessIdentity();
}

bool Child::HasEnded() const {
  pollfd end = {pidfd_.get(), POLLIN, 0};
  return poll(&end, 1, 0) == 1;
}

void Child::Kill() const {
  syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

ChildEnd Child::End() const {
  if (!is_own_) return {};
  siginfo_t info{};
  int code = 0;
  while ((code = waitid(P_PID, static_cast<id_t>(process_id_), &info, WEXITED | WNOWAIT)) != 0 && errno == EINTR) {
  }
  KEDGE_CHECK(code == 0);
  if (info.si_code == CLD_EXITED) return {info.si_status, 0};
  return {0, info.si_status};
}

Result<std::string> Child::Output(size_t bytes_max) const {
  std::string text(bytes_max, '\0');
  const ssize_t got = pread(output_.get(), text.data(), text.size(), 0);
  if (got < 0) return Status::FromErrno(errno, "read what a process has written");
  text.resize(static_cast<size_t>(got));
  return text;
}

void Child::Reap() const {
  if (!is_own_) return;
  while (waitpid(process_id_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace kedge::os
