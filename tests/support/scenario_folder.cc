// See scenario_folder.h.
#include "tests/support/scenario_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/random.h"

namespace kedge::testing {
namespace {

// Who listens on a unix socket: SO_PEERCRED of a connection to it.
int ListenerPid(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return 0;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ucred credentials{};
  socklen_t length = sizeof credentials;
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                         getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0;
  close(fd);
  return connected ? credentials.pid : 0;
}

// What the agents and programs of a failed test had to say goes with it.
void ShowLog(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  constexpr size_t kShownMax = 16384;
  if (!text.empty())
    std::fprintf(stderr, "---- %s\n%s----\n", path.c_str(), text.substr(text.size() - std::min(text.size(), kShownMax)).c_str());
}

}  // namespace

ScenarioFolder::ScenarioFolder() {
  const std::string name = "kedge-test-" + Id128::Generate().ToHex().substr(0, 12);
  path_ = std::filesystem::temp_directory_path() / name;
  memory_folder_ = "/dev/shm/" + name;
  run_folder_ = memory_folder_ + "/node";
  for (const std::string& folder : {path_, memory_folder_}) {
    std::filesystem::create_directory(folder);
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  }
}

ScenarioFolder::~ScenarioFolder() {
  // One that was being started while the test ended comes up a moment later.
  for (int round = 0; round < 3; ++round) {
    while (KillAgent()) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (::testing::Test::HasFailure()) {
    ShowLog(run_folder_ + "/agent.log");
    for (int output = 1; output <= outputs_; ++output) ShowLog(path_ + "/output-" + std::to_string(output));
  }
  std::error_code ignored;
  std::filesystem::remove_all(memory_folder_, ignored);
  std::filesystem::permissions(path_, std::filesystem::perms::owner_all, std::filesystem::perm_options::add, ignored);
  std::filesystem::remove_all(path_, ignored);
}

std::string ScenarioFolder::NewOutput() {
  return path_ + "/output-" + std::to_string(++outputs_);
}

std::map<std::string, std::string> ScenarioFolder::Environment() const {
  return {{"KEDGE_STORE_PATH", store()},
          {"KEDGE_NODE_RUN_FOLDER", run_folder_},
          {"KEDGE_POOL_SIZE", "64MiB"},
          {"KEDGE_CHUNK_SIZE", "4MiB"},
          {"KEDGE_CHUNK_PIECE", "1MiB"},
          {"KEDGE_AGENT_IDLE_TIMEOUT", "20s"},
          {"KEDGE_WAIT_TIMEOUT", "60s"},
          {"KEDGE_JOB_NAME", "scenario"},
          {"KEDGE_NODE", ""},
          {"KEDGE_PLACEMENT_CALIBRATIONS", path_ + "/calibrations"}};
}

std::map<std::string, std::string> ScenarioFolder::MpiEnvironment() const {
  auto environment = Environment();
  environment.merge(std::map<std::string, std::string>{{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                                       {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                                       {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                                       {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                                       {"OMPI_MCA_btl_vader_backing_directory", memory_folder_},
                                                       {"OMPI_MCA_orte_tmpdir_base", path_}});
  return environment;
}

int AgentPidAt(const std::string& run_folder) {
  return ListenerPid(run_folder + "/agent.sock");
}

bool KillAgentAt(const std::string& run_folder) {
  const int pid = AgentPidAt(run_folder);
  if (pid <= 0) return false;
  kill(pid, SIGKILL);
  // It is no child of ours: wait until its socket is dead.
  for (int i = 0; i < 500 && AgentPidAt(run_folder) == pid; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return true;
}

int ScenarioFolder::AgentPid() const {
  return AgentPidAt(run_folder_);
}

bool ScenarioFolder::KillAgent() {
  return KillAgentAt(run_folder_);
}

void FlipBit(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file.good()) << path;
  file.seekg(static_cast<std::streamoff>(offset));
  char byte = 0;
  file.read(&byte, 1);
  ASSERT_TRUE(file.good()) << path << " at " << offset;
  byte = static_cast<char>(byte ^ 0x10);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(&byte, 1);
}

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::string content(file ? static_cast<size_t>(file.tellg()) : 0, '\0');
  file.seekg(0);
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  EXPECT_TRUE(file.good()) << path;
  return content;
}

int FlipBitIn(const std::string& path, const std::string& text, size_t at) {
  const std::string content = ReadWhole(path);
  int found = 0;
  for (size_t begin = content.find(text); begin != std::string::npos; begin = content.find(text, begin + text.size())) {
    FlipBit(path, begin + at);
    ++found;
  }
  return found;
}

}  // namespace kedge::testing
