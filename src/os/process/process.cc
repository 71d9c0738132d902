#include "os/process/process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "os/files/files.h"
#include "os/memory/address_space.h"

namespace kedge::os {
namespace {

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

struct ProcessStat {
  char state = '?';
  uint32_t threads = 0;
  uint64_t start_ticks = 0;
};

Result<ProcessStat> ReadStat(pid_t process_id) {
  KEDGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(SystemFileSystem(), fmt::format("/proc/{}/stat", process_id), 65536));
  // The second field is the program's name in parentheses and may itself contain spaces and parentheses.
  const size_t name_end = text.rfind(')');
  std::string_view rest = name_end == std::string::npos ? std::string_view() : std::string_view(text).substr(name_end + 1);
  ProcessStat stat;
  for (int field = 3; field <= 22; ++field) {
    if (rest.empty() || rest.front() != ' ')
      return Status(Code::kInternal, fmt::format("/proc/{}/stat has an unknown form", process_id));
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (field == 3 && !word.empty()) stat.state = word.front();
    if (field == 20) std::from_chars(word.data(), word.data() + word.size(), stat.threads);
    if (field == 22) std::from_chars(word.data(), word.data() + word.size(), stat.start_ticks);
    rest.remove_prefix(word.size());
  }
  return stat;
}

}  // namespace

Result<ProcessIdentity> IdentityOf(pid_t process_id) {
  const auto stat = ReadStat(process_id);
  if (stat.ok()) return ProcessIdentity{process_id, stat->start_ticks};
  const int error = stat.status().errno_value();
  if (error == ENOENT || error == ESRCH) return Status(Code::kNotFound, fmt::format("no process {}", process_id));
  return stat.status();
}

ProcessIdentity OwnIdentity() {
  const auto identity = IdentityOf(getpid());
  KEDGE_CHECK(identity.ok());
  return *identity;
}

bool IsAlive(const ProcessIdentity& process) {
  const auto stat = ReadStat(process.process_id);
  if (!stat.ok()) {
    const int error = stat.status().errno_value();
    // Anything but "no such process" must not be taken for a death.
    return error != ENOENT && error != ESRCH;
  }
  if (stat->start_ticks != process.start_ticks || stat->state == 'X') return false;
  // A first thread that has ended is a zombie also while others of the process run, or are about to close its files.
  return stat->state != 'Z' || stat->threads > 1;
}

Result<UniqueFd> OpenPidfd(const ProcessIdentity& process) {
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, process.process_id, 0)));
  if (!fd.valid()) {
    if (errno == ESRCH) return Status(Code::kNotFound, fmt::format("no process {}", process.process_id));
    return Status::FromErrno(errno, fmt::format("pidfd_open {}", process.process_id));
  }
  // The id may have been reused before the open; after it, the descriptor stays with the one process.
  if (!IsAlive(process)) return Status(Code::kNotFound, fmt::format("process {} has ended", process.process_id));
  return fd;
}

Status ReplaceProcess(const std::string& program, char** arguments) {
  execvp(program.c_str(), arguments);
  return Status::FromErrno(errno, "run " + program);
}

Status AllowDescriptors(uint64_t count) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return Status::FromErrno(errno, "getrlimit");
  if (limit.rlim_cur >= count) return Status::Ok();
  const rlim_t former = std::exchange(limit.rlim_cur, count);
  if (limit.rlim_max >= count && setrlimit(RLIMIT_NOFILE, &limit) == 0) return Status::Ok();
  return Status(Code::kUnsupported, fmt::format("{} open files are needed, and {} allowed (ulimit -n; at most {}: ulimit -Hn)",
                                                count, former, limit.rlim_max));
}

Status SendSignal(const ProcessIdentity& process, int signal) {
  auto fd = OpenPidfd(process);
  if (fd.status().code() == Code::kUnsupported) {
    if (!IsAlive(process)) return Status(Code::kNotFound, fmt::format("process {} has ended", process.process_id));
    if (kill(process.process_id, signal) == 0) return Status::Ok();
    return Status::FromErrno(errno, fmt::format("kill {}", process.process_id));
  }
  if (!fd.ok()) return fd.status();
  if (syscall(SYS_pidfd_send_signal, fd->get(), signal, nullptr, 0) == 0) return Status::Ok();
  if (errno == ESRCH) return Status(Code::kNotFound, fmt::format("process {} has ended", process.process_id));
  return Status::FromErrno(errno, fmt::format("signal process {}", process.process_id));
}

Result<std::string> ProgramFolder() {
  char path[4096];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path);
  if (bytes < 0) return Status::FromErrno(errno, "readlink /proc/self/exe");
  return ParentPath(std::string_view(path, static_cast<size_t>(bytes)));
}

// Not dladdr: it gives the path as the loader was told it, which may be relative to a folder since left.
Result<std::string> LibraryFolder() {
  const auto address = reinterpret_cast<uintptr_t>(&LibraryFolder);
  std::string folder;
  KEDGE_RETURN_IF_ERROR(ForEachMapped([&](const Mapped& mapped) {
    const bool is_here = address >= mapped.begin && address < mapped.end && mapped.path.starts_with('/');
    if (is_here) folder = ParentPath(mapped.path);
    return !is_here;
  }));
  if (!folder.empty()) return folder;
  return Status(Code::kInternal, "/proc/self/maps does not name the file of this library");
}

}  // namespace kedge::os
