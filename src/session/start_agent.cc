// Connect: to the running agent, or to one that is started here. Of a node's ranks one starts it: that which has the lock of the
// agent's log. Should several start one all the same, the agents race for their run folder's lock, the losers leave, and every
// client ends up with the winner.
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
// How long another process is left to start it.
constexpr Duration kOtherStarts = std::chrono::seconds(2);
constexpr size_t kLogTailBytes = 600;

std::string LogPath(const NodeSettings& node) {
  return node.run_folder + "/agent.log";
}

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
  daemon.log_path = LogPath(options.node);
  return os::SpawnDaemon(daemon);
}

// Between looks, longer each time.
class Pauses {
 public:
  void Pause() {
    std::this_thread::sleep_for(next_);
    next_ = std::min<Duration>(next_ * 2, std::chrono::milliseconds(20));
  }

 private:
  Duration next_ = std::chrono::milliseconds(1);
};

// Which of the processes that want an agent starts it.
class StartTurn {
 public:
  explicit StartTurn(const NodeSettings& node) : path_(LogPath(node)) {}

  // Whether it is this one: until its end. Where the log cannot be locked, all are.
  bool Take() {
    auto log = os::PrivateFileSystem().Open(path_, os::OpenFlags::kReadWrite | os::OpenFlags::kCreate);
    if (!log.ok()) return true;
    const Result<bool> locked = (*log)->TryLock(/*exclusive=*/true);
    if (locked.ok() && !*locked) return false;
    log_ = std::move(*log);
    return true;
  }

 private:
  const std::string path_;
  std::unique_ptr<os::File> log_;
};

}  // namespace

Result<std::string> FindAgentProgram() {
  if (const char* named = std::getenv("KEDGE_AGENT"); named != nullptr && *named != '\0') return std::string(named);
  std::string tried;
  for (const auto& folder : {os::LibraryFolder(), os::ProgramFolder()}) {
    if (!folder.ok()) continue;
    for (const char* relative : {"kedge-agent", "../bin/kedge-agent", "../../bin/kedge-agent"}) {
      std::string path = os::AbsolutePath(os::JoinPath(*folder, relative));
      if (os::Exists(os::SystemFileSystem(), path).ok() && *os::Exists(os::SystemFileSystem(), path)) return path;
      tried += (tried.empty() ? "" : ", ") + path;
    }
  }
  return Status(Code::kNotFound, fmt::format("kedge-agent is neither at {}; set KEDGE_AGENT to its path", tried));
}

Result<std::unique_ptr<Connection>> Connection::Connect(const ConnectOptions& options) {
  const Deadline deadline(SystemClock(), options.timeout);
  const auto connect = [&options]() -> Result<std::unique_ptr<Connection>> {
    KEDGE_ASSIGN_OR_RETURN(os::UnixSocket socket, ConnectToOwn(options.node.SocketPath()));
    return std::unique_ptr<Connection>(new Connection(std::move(socket)));
  };
  const auto is_there = [](const auto& connection) { return connection.status().code() != Code::kUnavailable; };
  auto connection = connect();
  if (is_there(connection) || !options.start_agent) return connection;

  KEDGE_RETURN_IF_ERROR(os::MakeFolders(os::PrivateFileSystem(), options.node.run_folder, 0700, false));
  Pauses pauses;
  StartTurn turn(options.node);
  for (const Deadline others(SystemClock(), kOtherStarts); !turn.Take() && !others.Passed(); pauses.Pause()) {
    connection = connect();
    if (is_there(connection)) return connection;
  }
  // That of the process whose turn it was before.
  connection = connect();
  if (is_there(connection)) return connection;

  KEDGE_ASSIGN_OR_RETURN(os::ProcessIdentity started, StartAgent(options));
  int starts = 1;
  // The one that we started may leave because another one won the race; that one needs a moment to listen, and it may die.
  std::optional<Deadline> grace;
  for (;; pauses.Pause()) {
    connection = connect();
    if (is_there(connection)) return connection;
    if (!grace.has_value() && !os::IsAlive(started)) grace.emplace(SystemClock(), kWinnerComesUp);
    const bool is_over = grace.has_value() && grace->Passed();
    if (is_over && starts < kStartsMax && !deadline.Passed()) {
      KEDGE_ASSIGN_OR_RETURN(started, StartAgent(options));
      ++starts;
      grace.reset();
    } else if (is_over || deadline.Passed()) {
      return Status(Code::kUnavailable,
                    fmt::format("the agent of node {} did not come up ({}); the end of {}: {}", options.node.node,
                                connection.status().message(), LogPath(options.node), LogTail(LogPath(options.node))));
    }
  }
}

}  // namespace kedge
