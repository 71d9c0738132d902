// Connect: to the running agent, or to one that is started here. Several clients may start one at a time; the agents race
// for their run folder's lock, the losers leave, and every client ends up with the winner.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/machine/machine.h"
#include "os/process/process.h"
#include "session/connection.h"

namespace kedge {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(5);
constexpr Duration kWinnerComesUp = std::chrono::milliseconds(500);
constexpr int kStartsMax = 4;
constexpr size_t kLogTailBytes = 600;

// The end of the agent's log, for an error message.
std::string LogTail(const std::string& path) {
  auto file = os::PrivateFileSystem().Open(path, os::OpenFlags::kRead);
  if (!file.ok()) return "(no log)";
  auto info = (*file)->Fstat();
  const uint64_t size = info.ok() ? info->size_bytes : 0;
  std::string text(std::min<uint64_t>(size, kLogTailBytes), '\0');
  auto read = os::ReadUpTo(**file, text.data(), text.size(), size - text.size());
  text.resize(read.ok() ? *read : 0);
  return text.empty() ? "(its log is empty)" : text;
}

Result<os::UnixSocket> ConnectToOwn(const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(os::UnixSocket socket, os::UnixSocket::Connect(path, kConnectTimeout));
  KEDGE_ASSIGN_OR_RETURN(os::PeerCredentials peer, socket.Peer());
  if (peer.user_id != os::EffectiveUser()) {
    return Status(Code::kPermission, fmt::format("{} is served by a process of user {}; expected is user {}", path, peer.user_id,
                                                 os::EffectiveUser()));
  }
  return socket;
}

Result<os::ProcessIdentity> StartAgent(const ConnectOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(std::string program, FindAgentProgram());
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(os::PrivateFileSystem(), options.node.run_folder, 0700, false));
  os::DaemonOptions daemon;
  daemon.program = program;
  daemon.arguments = {"--configured", "--set", "node.name=" + options.node.node, "--set",
                      "node.run_folder=" + options.node.run_folder};
  for (const auto& [key, text] : options.node_keys) {
    if (key == "node.run_folder") continue;
    daemon.arguments.push_back("--set");
    daemon.arguments.push_back(key + "=" + text);
  }
  // What a launcher left in our environment is about our process: an agent that seemed to be a rank would confuse it.
  daemon.unset = {"OMPI_*", "PMIX_*", "PMI_*", "MPI_*", "MPICH_*", "HYDI_*", "HYDRA_*", "ORTE_*", "PRTE_*", "LD_PRELOAD"};
  daemon.log_path = options.node.run_folder + "/agent.log";
  return os::SpawnDaemon(daemon);
}

}  // namespace

Result<std::string> FindAgentProgram() {
  if (const char* named = std::getenv("KEDGE_AGENT"); named != nullptr && *named != '\0') return std::string(named);
  std::string tried;
  for (const auto& folder : {os::LibraryFolder(), os::ProgramFolder()}) {
    if (!folder.ok()) continue;
    for (const char* relative : {"kedge-agent", "../bin/kedge-agent"}) {
      std::string path = os::AbsolutePath(os::JoinPath(*folder, relative));
      if (os::Exists(os::SystemFileSystem(), path).ok() && *os::Exists(os::SystemFileSystem(), path)) return path;
      tried += (tried.empty() ? "" : ", ") + path;
    }
  }
  return Status(Code::kNotFound, fmt::format("kedge-agent is neither at {}; set KEDGE_AGENT to its path", tried));
}

Result<std::unique_ptr<Connection>> Connection::Connect(const ConnectOptions& options) {
  const Deadline deadline(SystemClock(), options.timeout);
  const std::string path = options.node.SocketPath();
  auto socket = ConnectToOwn(path);
  if (socket.ok()) return std::unique_ptr<Connection>(new Connection(std::move(*socket)));
  if (socket.status().code() != Code::kUnavailable || !options.start_agent) return socket.status();

  KEDGE_ASSIGN_OR_RETURN(os::ProcessIdentity started, StartAgent(options));
  int starts = 1;
  Duration pause = std::chrono::milliseconds(1);
  // The one that we started may leave because another one won the race; that one needs a moment to listen, and it may die.
  std::optional<Deadline> grace;
  for (;;) {
    socket = ConnectToOwn(path);
    if (socket.ok()) return std::unique_ptr<Connection>(new Connection(std::move(*socket)));
    if (socket.status().code() != Code::kUnavailable) return socket.status();
    if (!grace.has_value() && !os::IsAlive(started)) grace.emplace(SystemClock(), kWinnerComesUp);
    if (grace.has_value() && grace->Passed() && starts < kStartsMax && !deadline.Passed()) {
      KEDGE_ASSIGN_OR_RETURN(started, StartAgent(options));
      ++starts;
      grace.reset();
      continue;
    }
    if (deadline.Passed() || (grace.has_value() && grace->Passed())) {
      return Status(Code::kUnavailable, fmt::format("the agent of node {} did not come up ({}); the end of {}/agent.log: {}",
                                                    options.node.node, socket.status().message(), options.node.run_folder,
                                                    LogTail(options.node.run_folder + "/agent.log")));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<Duration>(pause * 2, std::chrono::milliseconds(20));
  }
}

}  // namespace kedge
