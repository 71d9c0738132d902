// fmirun: the program.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "fmi/board.h"
#include "fmi/environment.h"
#include "fmi/launch/job_state.h"
#include "fmi/launch/launcher.h"
#include "fmi/launch/state_folder.h"
#include "fmi/launch/task.h"
#include "fmi/launch/task_options.h"
#include "kedge/kedge.h"
#include "os/events/event_fd.h"
#include "os/files/files.h"
#include "os/process/folder.h"
#include "os/process/process.h"
#include "os/process/signals.h"
#include "os/sockets/tcp_socket.h"
#include "session/config_keys.h"

namespace kedge::fmi {
namespace {

// It asks nobody for a password, and gives up a host that does not answer.
constexpr char kSsh[] = "ssh -o BatchMode=yes -o ConnectTimeout=10";

// Jobs of one name, on one node, at once.
constexpr int kJobsMax = 99;
constexpr int kTriesMax = 100;

constexpr char kUsage[] =
    R"(usage: fmirun -n RANKS [OPTION]... PROGRAM [ARGUMENT]...
       fmirun --take-over STATE [--interface ADDRESS]

Runs an FMI program (kedge/fmi.h) with so many ranks. A rank that is killed is
started again while the others live, and a spare node takes the ranks of one
that is lost; FMI_Loop brings all of them back to their last checkpoint.

  -n, --ranks RANKS    1 to 1024
  --hosts LIST         n1,n2,...: machines over which the ranks are spread
  --virtual LIST       the same for virtual nodes on one machine
  --spares COUNT       so many of them, the last ones, have no ranks until
                       another one is lost (0)
  --more COMMAND       asked for another node where no spare is left: it writes
                       the name, and behind it a --shell of its own, if any
  --shell COMMAND      starts a command on a node, when the node and the
                       command's words follow (for --hosts ssh)
  --interface ADDRESS  of this machine, at which the nodes reach it (the one
                       from which the shell has come)
  --interval STEPS     a checkpoint at every so many calls of FMI_Loop (1), or
                       "due": when one is due by Kedge's own schedule
  --failures COUNT     so many in a row without a new checkpoint are survived
                       (10)
  --timeout TIME       ends the job when ranks have not come to FMI_Loop so
                       long after a failure (10min)
  --orphan-timeout TIME
                       the ranks run on so long when fmirun dies, and a
                       successor may take over; 0: they end with it (10min)
  --state STATE        where fmirun leaves what a successor needs: a folder,
                       with a slash in it, or a job's name
                       (KEDGE_JOB_NAME, else the program's name)
  --take-over STATE    goes on with this job; if its fmirun lives, that one
                       leaves
  --version, --help

Without --hosts and --virtual all ranks are on this machine. `kedge run --fmi`
finds the nodes by itself, in a SLURM allocation too.
Environment of the ranks: FMI_RANK, FMI_RANKS, FMI_RESPAWNS (how often this
rank was started before), FMI_INTERVAL.
Signals: SIGTERM, SIGINT and SIGHUP end the job.
Exit: 0 when all ranks have called FMI_Finalize and exited with 0; else the
first other code of a rank, or 1. 79: another fmirun has taken over.
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
    options->interval = kWhenDue;
    if (value == "due") return Status::Ok();
    KEDGE_ASSIGN_OR_RETURN(options->interval, ParseNumber(word, value, 1, kIntervalMax));
  } else if (word == "--failures") {
    KEDGE_ASSIGN_OR_RETURN(options->failures_max, ParseNumber(word, value, 0, 1'000'000));
  } else if (word == "--hosts" || word == "--virtual") {
    if (!options->nodes.empty())
      return Status(Code::kInvalidArgument, "the nodes are named twice: one of --hosts and --virtual is enough");
    KEDGE_ASSIGN_OR_RETURN(options->nodes, ParseNames(word, value));
    options->is_virtual = word == "--virtual";
  } else if (word == "--more") {
    options->more = value;
  } else if (word == "--shell") {
    options->shell = value;
  } else if (word == "--interface") {
    const auto address = os::ParseAddress(value);
    if (!address) return Status(Code::kInvalidArgument, fmt::format("{} needs an IPv4 address, not \"{}\"", word, value));
    options->address = *address;
  } else if (word == "--spares") {
    KEDGE_ASSIGN_OR_RETURN(options->spares, ParseNumber(word, value, 0, kNodesMax));
  } else if (word == "--orphan-timeout") {
    KEDGE_ASSIGN_OR_RETURN(options->orphan_timeout, ParseDuration(value));
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

// The program of the tasks.
Result<std::string> OwnProgram(const LaunchOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(std::string program, os::ProgramFolder());
  program += "/fmirun";
  // ssh lets a shell on the node read it again.
  if (!options.shell.empty() && std::any_of(program.begin(), program.end(), IsReadBySh))
    return Status(Code::kUnsupported,
                  fmt::format("{} cannot be started on other nodes: a shell would read its path otherwise", program));
  return program;
}

// Somebody has sent a signal that ends the job, and whatever else would follow.
std::atomic<bool> was_told_to_end = false;

// The job, from its begin or from where a former fmirun has left it, to its end. `has_nothing_left`: as of Launcher.
int RunJob(LaunchOptions options, std::optional<StateFolder> folder, std::optional<JobState> former,
           bool* has_nothing_left = nullptr) {
  static std::optional<os::EventFd> stop;
  auto event = os::EventFd::Create();
  if (!event.ok()) return Fail(event.status().ToString());
  stop = std::move(*event);
  auto program = OwnProgram(options);
  if (!program.ok()) return Fail(program.status().message());
  options.program = std::move(*program);
  auto launcher = Launcher::Create(std::move(options), std::move(folder), std::move(former));
  if (!launcher.ok()) return Fail(launcher.status().ToString());
  os::OnTerminationSignals([] {
    was_told_to_end = true;
    stop->Signal();
  });
  const int code = (*launcher)->Run(*stop);
  os::OnTerminationSignals(nullptr);
  if (has_nothing_left != nullptr) *has_nothing_left = (*launcher)->has_nothing_left();
  return code;
}

// The folder of a new job, or one whose fmirun has died, with what that has left.
struct Opened {
  StateFolder folder;
  std::optional<JobState> former;
};

// kBusy: the fmirun of the job that has this folder lives, or another one follows it at this moment.
Result<Opened> Open(const std::string& path) {
  Status last;
  // Again where a job ends meanwhile.
  for (int tries = 0; tries < kTriesMax; ++tries) {
    auto created = StateFolder::Create(path);
    if (created.ok()) return Opened{std::move(*created), std::nullopt};
    last = created.status();
    if (last.code() == Code::kNotFound) continue;
    if (last.code() != Code::kAlreadyExists) return last;
    const auto is_held = StateFolder::IsHeld(path);
    if (is_held.ok() && *is_held)
      return Status(Code::kBusy, fmt::format("the fmirun of {} lives; --take-over replaces it", path));
    auto folder = is_held.ok() ? StateFolder::Claim(path) : Result<StateFolder>(is_held.status());
    last = folder.status();
    if (last.code() == Code::kNotFound) continue;
    if (!folder.ok()) return last;
    auto former = folder->Read();
    if (former.ok()) return Opened{std::move(*folder), std::move(*former)};
    if (former.status().code() != Code::kNotFound) return former.status().WithContext(path);
    folder->Remove();
  }
  return last;
}

// In the first folder of this name that is no living fmirun's.
Result<Opened> OpenAny(const std::string& name) {
  Result<Opened> opened = Open(StatePath(name));
  for (int number = 2; opened.status().code() == Code::kBusy && number <= kJobsMax; ++number) {
    opened = Open(StatePath(fmt::format("{}.{}", name, number)));
  }
  return opened;
}

// `state`: where to leave what a successor needs, if somebody has said where.
int Launch(const LaunchOptions& options, const std::string& state) {
  if (options.orphan_timeout == Duration::zero()) return RunJob(options, std::nullopt, std::nullopt);
  const char* job = std::getenv("KEDGE_JOB_NAME");
  const std::string name = job != nullptr && *job != '\0' ? job : os::BaseName(options.command.front());
  for (;;) {
    auto opened = state.empty() ? OpenAny(name) : Open(StatePath(state));
    if (!opened.ok()) return Fail(opened.status().message());
    if (!opened->former) return RunJob(options, std::move(opened->folder), std::nullopt);
    JobState& former = *opened->former;
    const auto here = os::CurrentFolder();
    // The same command again goes on, if only from checkpoints; what another one has left is ended, so that two jobs do not take
    // theirs under one name.
    const bool goes_on = AreSame(options, former.options) && here.ok() && *here == former.folder;
    if (!goes_on) {
      former.has_ended = true;
      former.why = fmt::format("ends what another command has left in {}", opened->folder.path());
    }
    LaunchOptions its = former.options;
    its.address = options.address;
    bool has_nothing_left = false;
    const int code = RunJob(std::move(its), std::move(opened->folder), std::move(former), &has_nothing_left);
    if ((goes_on && !has_nothing_left) || code == Launcher::kReplacedExitCode || was_told_to_end) return code;
  }
}

// Goes on with the job that has left this.
int TakeOver(const std::string& state, uint32_t address) {
  const std::string path = StatePath(state);
  auto folder = StateFolder::Claim(path);
  if (folder.status().code() == Code::kNotFound)
    return Fail(fmt::format("no fmirun has left anything in {}: the job has ended, or lies elsewhere", path));
  if (!folder.ok()) return Fail(folder.status().message());
  auto former = folder->Read();
  if (!former.ok()) return Fail(former.status().WithContext(path).message());
  LaunchOptions options = former->options;
  options.address = address;
  return RunJob(std::move(options), std::move(*folder), std::move(*former));
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
  if (options.nodes.empty() && !options.more.empty())
    return Status(Code::kInvalidArgument, "--more is for nodes, which --hosts or --virtual names");
  if (options.shell.empty() && options.address != 0)
    return Status(Code::kInvalidArgument, "--interface is for nodes on other machines (--hosts, --shell)");
  return Status::Ok();
}

// What the command line says besides the options of the job.
struct Words {
  std::string state;
  std::string take_over;
  bool has_ranks = false;
};

Result<Words> Parse(const std::vector<std::string>& words, LaunchOptions* options) {
  Words found;
  size_t next = 0;
  for (; next < words.size() && words[next].starts_with('-'); next += 2) {
    const std::string& word = words[next];
    if (next + 1 == words.size())
      return Status(Code::kInvalidArgument, fmt::format("{} needs a value, or is unknown; see --help", word));
    const std::string& value = words[next + 1];
    if (word == "--state" || word == "--take-over") {
      if (value.empty()) return Status(Code::kInvalidArgument, fmt::format("{} needs a folder or the name of a job", word));
      (word == "--state" ? found.state : found.take_over) = value;
      continue;
    }
    KEDGE_RETURN_IF_ERROR(ParseOption(word, value, options));
    found.has_ranks = found.has_ranks || word == "-n" || word == "--ranks";
  }
  options->command.assign(words.begin() + static_cast<std::ptrdiff_t>(next), words.end());
  return found;
}

// Whether messages between nodes are sealed, by the configuration.
Result<bool> SealsMessages() {
  KEDGE_ASSIGN_OR_RETURN(const Config config, Config::Load(KedgeConfigRegistry(), ConfigSources::FromProcess()));
  return config.GetBool("net.encrypt");
}

int Main(const std::vector<std::string>& words) {
  if (!words.empty() && words.front() == "--task") return RunTask();
  for (size_t next = 0; next < words.size() && words[next].starts_with('-'); next += 2) {
    if (words[next] == "--help") return std::fputs(kUsage, stdout), 0;
    if (words[next] != "--version") continue;
    std::printf("fmirun %d.%d.%d\n", KEDGE_VERSION_MAJOR, KEDGE_VERSION_MINOR, KEDGE_VERSION_PATCH);
    return 0;
  }
  LaunchOptions options;
  const auto parsed = Parse(words, &options);
  if (!parsed.ok()) return Fail(parsed.status().message());
  if (!parsed->take_over.empty()) {
    if (parsed->has_ranks || !parsed->state.empty() || !options.command.empty())
      return Fail("--take-over goes on with a job as it is: only --interface may stand beside it");
    return TakeOver(parsed->take_over, options.address);
  }
  if (!options.nodes.empty() && !options.is_virtual && options.shell.empty()) options.shell = kSsh;
  if (const Status nodes = CheckNodes(options); !nodes.ok()) return Fail(nodes.message());
  if (options.command.empty() || !parsed->has_ranks) return Fail("-n RANKS and a program are needed; see --help");
  const auto seals_messages = SealsMessages();
  if (!seals_messages.ok()) return Fail(seals_messages.status().message());
  options.seals_messages = *seals_messages;
  return Launch(options, parsed->state);
}

}  // namespace
}  // namespace kedge::fmi

int main(int argc, char** argv) {
  return kedge::fmi::Main(std::vector<std::string>(argv + 1, argv + argc));
}
