// fmirun: the program.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "fmi/board.h"
#include "fmi/launch/launcher.h"
#include "fmi/launch/task.h"
#include "fmi/launch/task_options.h"
#include "kedge/kedge.h"
#include "os/events/event_fd.h"
#include "os/process/folder.h"
#include "os/process/process.h"
#include "os/process/signals.h"
#include "os/sockets/tcp_socket.h"

namespace kedge::fmi {
namespace {

// It asks nobody for a password, and gives up a host that does not answer.
constexpr char kSsh[] = "ssh -o BatchMode=yes -o ConnectTimeout=10";

constexpr char kUsage[] =
    R"(usage: fmirun -n RANKS [OPTION]... PROGRAM [ARGUMENT]...

Runs an FMI program (kedge/fmi.h) with so many ranks. A rank that is killed is
started again while the others live, and a spare node takes the ranks of one
that is lost; FMI_Loop brings all of them back to their last checkpoint.

  -n, --ranks RANKS    1 to 256
  --hosts LIST         n1,n2,...: machines over which the ranks are spread
  --virtual LIST       the same for virtual nodes on one machine
  --spares COUNT       so many of them, the last ones, have no ranks until
                       another one is lost (0)
  --shell COMMAND      starts a command on a node, when the node and the
                       command's words follow (for --hosts ssh)
  --interface ADDRESS  of this machine, at which the nodes reach it (the one
                       from which the shell has come)
  --interval STEPS     a checkpoint at every so many calls of FMI_Loop (1)
  --failures COUNT     so many in a row without a new checkpoint are survived
                       (10)
  --timeout TIME       ends the job when ranks have not come to FMI_Loop so
                       long after a failure (10min)
  --version, --help

Without --hosts and --virtual all ranks are on this machine. `kedge run --fmi`
finds the nodes by itself, in a SLURM allocation too.
Environment of the ranks: FMI_RANK, FMI_RANKS, FMI_RESPAWNS (how often this
rank was started before), FMI_INTERVAL.
Signals: SIGTERM, SIGINT and SIGHUP end the job.
Exit: 0 when all ranks have called FMI_Finalize and exited with 0; else the
first other code of a rank, or 1.
)";

int Fail(const std::string& why) {
  std::fprintf(stderr, "fmirun: %s\n", why.c_str());
  return 1;
}

Result<uint32_t> ParseNumber(const std::string& option, const std::string& text, uint32_t least, uint32_t most) {
  uint32_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size() && number >= least && number <= most) return number;
  return Status(Code::kInvalidArgument, fmt::format("{} needs a number from {} to {}, not \"{}\"", option, least, most, text));
}

Result<std::vector<std::string>> ParseNames(const std::string& option, const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    if (names.back().empty() || names.back().front() == '-' || std::count(names.begin(), names.end(), names.back()) > 1) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{} needs different names with commas between them, not \"{}\"", option, text));
    }
    begin = end + 1;
  }
  return names;
}

Status ParseOption(const std::string& word, const std::string& value, LaunchOptions* options) {
  if (word == "-n" || word == "--ranks") {
    KEDGE_ASSIGN_OR_RETURN(options->ranks, ParseNumber(word, value, 1, kRanksMax));
  } else if (word == "--interval") {
    KEDGE_ASSIGN_OR_RETURN(options->interval, ParseNumber(word, value, 1, kIntervalMax));
  } else if (word == "--failures") {
    KEDGE_ASSIGN_OR_RETURN(options->failures_max, ParseNumber(word, value, 0, 1'000'000));
  } else if (word == "--hosts" || word == "--virtual") {
    if (!options->nodes.empty())
      return Status(Code::kInvalidArgument, "the nodes are named twice: one of --hosts and --virtual is enough");
    KEDGE_ASSIGN_OR_RETURN(options->nodes, ParseNames(word, value));
    options->is_virtual = word == "--virtual";
  } else if (word == "--shell") {
    options->shell = value;
  } else if (word == "--interface") {
    const auto address = os::ParseAddress(value);
    if (!address) return Status(Code::kInvalidArgument, fmt::format("{} needs an IPv4 address, not \"{}\"", word, value));
    options->address = *address;
  } else if (word == "--spares") {
    KEDGE_ASSIGN_OR_RETURN(options->spares, ParseNumber(word, value, 0, kNodesMax));
  } else if (word == "--timeout") {
    KEDGE_ASSIGN_OR_RETURN(options->timeout, ParseDuration(value));
  } else {
    return Status(Code::kInvalidArgument, fmt::format("unknown option \"{}\"; see --help", word));
  }
  return Status::Ok();
}

bool IsReadBySh(char character) {
  return std::isalnum(static_cast<unsigned char>(character)) == 0 &&
         std::string_view("/._+-,:@%=").find(character) == std::string_view::npos;
}

int Launch(LaunchOptions options) {
  auto stop = os::EventFd::Create();
  if (!stop.ok()) return Fail(stop.status().ToString());
  auto folder = os::ProgramFolder();
  if (!folder.ok()) return Fail(folder.status().ToString());
  options.program = *folder + "/fmirun";
  // ssh lets a shell on the node read it again.
  if (!options.shell.empty() && std::any_of(options.program.begin(), options.program.end(), IsReadBySh))
    return Fail(fmt::format("{} cannot be started on other nodes: a shell would read its path otherwise", options.program));
  auto launcher = Launcher::Create(std::move(options));
  if (!launcher.ok()) return Fail(launcher.status().ToString());
  static os::EventFd* stopping = nullptr;
  stopping = &*stop;
  os::OnTerminationSignals([] { stopping->Signal(); });
  const int code = (*launcher)->Run(*stop);
  os::OnTerminationSignals(nullptr);
  return code;
}

// From which srun or ssh has come to this node.
Result<uint32_t> AddressOfStarter() {
  for (const char* name : {"SLURM_LAUNCH_NODE_IPADDR", "SSH_CONNECTION"}) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    const std::string text = value;
    if (const auto address = os::ParseAddress(text.substr(0, text.find(' ')))) return *address;
  }
  return Status(Code::kUnavailable, "nothing says at which address this node reaches fmirun: --interface does");
}

// Where ranks find libmpi_abi.so.1, the MPI ABI on FMI, before any other.
Result<std::string> RankLibraryPath() {
  KEDGE_ASSIGN_OR_RETURN(const std::string folder, os::ProgramFolder());
  const char* others = std::getenv("LD_LIBRARY_PATH");
  const bool has_others = others != nullptr && *others != '\0';
  return folder + "/" KEDGE_MPI_ABI_FOLDER + (has_others ? std::string(":") + others : "");
}

// What fmirun starts on each node: fmirun --task, with its options on its input.
int RunTask() {
  auto options = DecodeTaskOptions(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  if (!options.ok()) return Fail(options.status().message());
  if (options->fmirun.address == 0) {
    const auto address = AddressOfStarter();
    if (!address.ok()) return Fail(address.status().message());
    options->fmirun.address = *address;
  }
  auto library_path = RankLibraryPath();
  if (!library_path.ok()) return Fail(library_path.status().message());
  options->variables.emplace_back("LD_LIBRARY_PATH", std::move(*library_path));
  // Where there is no such folder, ranks run at home, as those of mpirun do.
  (void)os::EnterFolder(options->folder);
  auto task = Task::Create(std::move(*options));
  if (!task.ok()) return Fail(task.status().ToString());
  const Status ran = (*task)->Run();
  return ran.ok() ? 0 : Fail(ran.message());
}

Status CheckNodes(const LaunchOptions& options) {
  const size_t nodes = std::max<size_t>(1, options.nodes.size());
  if (options.spares >= nodes || options.ranks < nodes - options.spares) {
    return Status(Code::kInvalidArgument, fmt::format("{} nodes, {} of them spares, are too {} for {} ranks", nodes,
                                                      options.spares, options.spares >= nodes ? "few" : "many", options.ranks));
  }
  if (nodes > kNodesMax) return Status(Code::kInvalidArgument, fmt::format("{} nodes are more than {}", nodes, kNodesMax));
  if (options.nodes.empty() && !options.shell.empty())
    return Status(Code::kInvalidArgument, "--shell is for nodes, which --hosts or --virtual names");
  if (options.shell.empty() && options.address != 0)
    return Status(Code::kInvalidArgument, "--interface is for nodes on other machines (--hosts, --shell)");
  return Status::Ok();
}

int Main(const std::vector<std::string>& words) {
  if (!words.empty() && words.front() == "--task") return RunTask();
  LaunchOptions options;
  size_t next = 0;
  bool has_ranks = false;
  for (; next < words.size() && words[next].starts_with('-'); next += 2) {
    const std::string& word = words[next];
    if (word == "--help") return std::fputs(kUsage, stdout), 0;
    if (word == "--version") {
      std::printf("fmirun %d.%d.%d\n", KEDGE_VERSION_MAJOR, KEDGE_VERSION_MINOR, KEDGE_VERSION_PATCH);
      return 0;
    }
    if (next + 1 == words.size()) return Fail(fmt::format("{} needs a value, or is unknown; see --help", word));
    const Status parsed = ParseOption(word, words[next + 1], &options);
    if (!parsed.ok()) return Fail(parsed.message());
    has_ranks = has_ranks || word == "-n" || word == "--ranks";
  }
  if (!options.nodes.empty() && !options.is_virtual && options.shell.empty()) options.shell = kSsh;
  if (const Status nodes = CheckNodes(options); !nodes.ok()) return Fail(nodes.message());
  options.command.assign(words.begin() + static_cast<std::ptrdiff_t>(next), words.end());
  if (options.command.empty() || !has_ranks) return Fail("-n RANKS and a program are needed; see --help");
  return Launch(std::move(options));
}

}  // namespace
}  // namespace kedge::fmi

int main(int argc, char** argv) {
  return kedge::fmi::Main(std::vector<std::string>(argv + 1, argv + argc));
}
