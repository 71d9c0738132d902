#include "levels_bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/status.h"
#include "format/set_records.h"
#include "levels_model.h"
#include "measure.h"
#include "measures_file.h"
#include "os/process/process.h"
#include "report.h"

extern char** environ;

namespace kedge::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kEndTimeoutSeconds = 10;

// All that the run makes, in memory: run folders with pools, the store that nothing is flushed to, measures. Gone with it, and
// the agents that serve there with it, also after a failure.
class RunFolder {
 public:
  // Mode 0700, of a name that nobody can have taken beforehand.
  RunFolder() : path_(fmt::format("/dev/shm/kedge-levels-{}-XXXXXX", getpid())) { KEDGE_CHECK(mkdtemp(path_.data()) != nullptr); }
  ~RunFolder() {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(path_, ignored)) EndAgent(entry.path().string());
    fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

  // Kills the agent of a node's folder, and waits until it is gone.
  static void EndAgent(const std::string& node_folder) {
    const int pid = AgentPid(node_folder);
    if (pid < 0) return;
    const auto agent = os::IdentityOf(pid);
    if (!agent.ok() || !os::SendSignal(*agent, SIGKILL).ok()) return;
    const double deadline = Now() + kEndTimeoutSeconds;
    while (os::IsAlive(*agent) && Now() < deadline) usleep(1000);
  }

 private:
  std::string path_;
};

// Runs LAUNCHER RANKS PROGRAM ARGUMENTS...; the exit code, or -1 when it could not be started. Its stdout goes to stderr: this
// program's is for the result.
int Launch(const LevelsOptions& options, const std::string& phase) {
  std::vector<std::string> words;
  std::istringstream launcher(options.launcher);
  for (std::string word; launcher >> word;) words.push_back(word);
  words.push_back(fmt::format("{}", options.ranks()));
  words.push_back(fs::read_symlink("/proc/self/exe").string());
  for (const std::string& argument : options.ArgumentsFor(phase)) words.push_back(argument);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = -1;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    std::fprintf(stderr, "kedge-bench levels: %s: %s\n", arguments[0], std::strerror(error));
    return -1;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// What a node's agent and its tiers are worth after the node is lost: nothing.
void LoseNodes(const LevelsOptions& options) {
  for (const int node : options.lost_nodes) {
    RunFolder::EndAgent(options.NodeFolder(node));
    fs::remove_all(options.NodeFolder(node));
  }
}

// What the nodes keep for others of the newest version, by the records of it in their run folders: bytes of parity objects or of
// copies. -1: no node has any.
double ExtraBytes(const std::string& folder) {
  std::map<Generation, double> bytes_of;
  for (const auto& node : fs::directory_iterator(folder)) {
    if (!fs::is_directory(node.path() / "sets")) continue;
    for (const auto& entry : fs::directory_iterator(node.path() / "sets")) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      const auto parity = DecodeParityRecord(AsBytes(content));
      if (parity.ok()) bytes_of[parity->identity.generation] += static_cast<double>(parity->blocks.bytes);
    }
  }
  return bytes_of.empty() ? -1 : bytes_of.rbegin()->second;
}

void AddModel(const LevelsOptions& options, Report* report) {
  const double node_bytes = static_cast<double>(options.bytes_total) / options.nodes;
  const char* encode = options.scheme_value == Scheme::kXor ? "reference_xor_seconds" : "reference_rs_row_seconds";
  const double network_seconds = report->Median("reference_network_seconds");
  if (network_seconds <= 0) return;  // no such provider here: nothing to compare with
  const NodeBandwidths bandwidths{node_bytes / report->Median("reference_memcpy_seconds"), node_bytes / network_seconds,
                                  node_bytes / report->Median(encode)};
  report->SetNumber("node_memory_bytes_per_second", bandwidths.memory);
  report->SetNumber("node_network_bytes_per_second", bandwidths.network);
  report->SetNumber("node_encode_bytes_per_second", bandwidths.encode);
  const double protect = ProtectModelSeconds(options.scheme_value, options.parity(), node_bytes, bandwidths);
  report->SetNumber("model_protected_seconds", protect);
  report->SetNumber("model_share", protect / report->Median("protected_seconds"));
  if (report->Median("restart_seconds") <= 0) return;
  const double restart = RestartModelSeconds(options.scheme_value, options.parity(), node_bytes, bandwidths);
  report->SetNumber("model_restart_seconds", restart);
  report->SetNumber("model_restart_share", restart / report->Median("restart_seconds"));
}

int Fail(const char* phase, int code) {
  std::fprintf(stderr, "kedge-bench levels: the ranks of phase %s ended with %d\n", phase, code);
  return 1;
}

int RunCommand(LevelsOptions options) {
  const RunFolder folder;
  options.folder = folder.path();
  Report report;
  report.SetText("scheme", options.scheme);
  report.SetNumber("nodes", options.nodes);
  report.SetNumber("ranks", options.ranks());
  report.SetNumber("group", options.group);
  report.SetNumber("losses", options.parity());
  report.SetNumber("bytes_total", static_cast<double>(options.bytes_total));
  report.SetNumber("repetitions", options.repetitions);
  report.SetText("lost_nodes", options.lose);
  if (const int code = Launch(options, "save"); code != 0) return Fail("save", code);
  if (!ReadMeasures(folder.path() + "/save", &report)) return Fail("save", 0);
  report.SetNumber("blocked_share", report.Median("blocked_seconds") / report.Median("local_blocked_seconds"));
  report.SetNumber("extra_bytes", ExtraBytes(folder.path()));
  int code = 0;
  if (!options.lost_nodes.empty()) {
    LoseNodes(options);
    options.phase = "restore";
    code = Launch(options, "restore");
    if (!ReadMeasures(folder.path() + "/restore", &report)) return Fail("restore", code);
  }
  AddModel(options, &report);
  std::printf("%s\n", report.JsonText().c_str());
  return code == 0 ? 0 : 1;
}

}  // namespace

int RunLevelsBench(int argc, char** argv) {
  LevelsOptions options;
  int code = 0;
  if (!ParseLevelsOptions(argc, argv, &options, &code)) return code;
  if (!options.phase.empty()) return RunLevelsRank(options);
  return RunCommand(std::move(options));
}

}  // namespace kedge::bench
