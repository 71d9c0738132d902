// Processes: who is alive (safely against reuse of process ids), exit watching, and the real daemon.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "os/files/unique_fd.h"

namespace kedge::os {

// A process id is reused; with its start time it names one process of this boot.
struct ProcessIdentity {
  pid_t process_id = 0;
  uint64_t start_ticks = 0;  // /proc/<pid>/stat field 22, in clock ticks since boot
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

ProcessIdentity OwnIdentity();
// kNotFound when there is no such process. A zombie is found.
Result<ProcessIdentity> IdentityOf(pid_t process_id);
// Whether this very process lives: any thread of it. A zombie does not: where nobody reaps, the dead stay in the table.
bool IsAlive(const ProcessIdentity& process);

// A descriptor that becomes readable when the process ends (pidfd_open): put it into the event loop. kNotFound when it
// has ended; kUnsupported before Linux 5.3: poll IsAlive then.
Result<UniqueFd> OpenPidfd(const ProcessIdentity& process);
// Sends the signal to that process and no other.
Status SendSignal(const ProcessIdentity& process, int signal);

// Runs `program` (a path, or a name found on PATH) in place of this process's, with these arguments (NULL-terminated, the
// first is its name). Returns only when that failed.
Status ReplaceProcess(const std::string& program, char** arguments);

// From now on this process, and those that it starts, may have so many descriptors open, as far as that was not so.
// kUnsupported: the system does not let it.
Status AllowDescriptors(uint64_t count);

// The folder of the running program's file, and of the library or program that contains this code.
Result<std::string> ProgramFolder();
Result<std::string> LibraryFolder();

struct DaemonOptions {
  std::string program;                 // path of the executable
  std::vector<std::string> arguments;  // without the program's name
  // The new environment is this process's without the variables that equal or, ending in '*', begin with one of these,
  std::vector<std::string> unset;
  // and with these set.
  std::vector<std::pair<std::string, std::string>> set;
  // Appended to (created with mode 0600) as stdout and stderr; empty: /dev/null.
  std::string log_path;
  // Passed on as descriptors 3, 4, ... in this order; all others are closed.
  std::vector<int> descriptors;
};

// Starts a daemon: no child of ours (so it neither becomes our zombie nor shows up in the application's wait), session
// leader of a session of its own, folder /, umask 077, stdin /dev/null, no signal blocked, all dispositions default,
// affinity widened to the whole cpuset, not traced to any inherited descriptor, so that no launcher hangs on its pipes.
// Returns when the program was executed; a failed exec is an error naming program and errno. Uses no fork: the caller's
// page tables are not copied, its atfork handlers do not run, no SIGCHLD is sent. Thread safe.
Result<ProcessIdentity> SpawnDaemon(const DaemonOptions& options);

}  // namespace kedge::os
