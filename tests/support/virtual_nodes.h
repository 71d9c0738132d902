// Several virtual nodes on this machine, each with a run folder, a pool and an agent of its own, and ranks as threads of the
// test (thread_ranks.h) that are spread over them. Everything goes with the object.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/scenario_folder.h"
#include "tests/support/thread_ranks.h"

namespace kedge::testing {

class VirtualNodes {
 public:
  explicit VirtualNodes(int nodes) : nodes_(nodes) {}
  ~VirtualNodes() {
    // One that was being started while the test ended comes up a moment later.
    for (int round = 0; round < 3; ++round) {
      for (int node = 0; node < nodes_; ++node) {
        while (KillAgentAt(RunFolder(node))) {
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    for (int node = 0; ::testing::Test::HasFailure() && node < nodes_; ++node) ShowLog(node);
  }

  // What fails together with each node; without it every node is a domain of its own.
  void SetDomains(std::vector<std::string> domains) { domains_ = std::move(domains); }
  static std::string Name(int node) { return "n" + std::to_string(node); }
  std::string RunFolder(int node) const { return folder_.memory_folder() + "/" + Name(node); }
  std::string Store() const { return folder_.store(); }
  // What a rank on that node is configured with.
  std::string Overrides(int node, const std::string& more) const {
    return "store.path=" + folder_.store() + "\nnode.name=" + Name(node) + "\nnode.run_folder=" + RunFolder(node) +
           "\npool.size=64MiB\nchunk.size=4MiB\nchunk.piece=1MiB\nwait.timeout=60s\njob.name=nodes\nagent.idle_timeout=20s\n" +
           (domains_.empty() ? std::string() : "node.failure_domain=" + domains_[static_cast<size_t>(node)] + "\n") + more;
  }
  // Rank r runs on node places[r].
  void Run(const std::vector<int>& places, const std::string& more,
           const std::function<void(kedge_context*, int rank)>& body) const {
    ThreadRanks(static_cast<int>(places.size()))
        .Run([&](int rank) { return Overrides(places[static_cast<size_t>(rank)], more); }, body);
  }

  // The node's agent as a program that a test starts before any client does.
  std::vector<std::string> AgentCommand(int node, const char* pool_size = "64MiB") const {
    const std::filesystem::path programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    std::vector<std::string> command = {programs.parent_path() / "bin/kedge-agent", "--configured", "--foreground"};
    auto set = [&](const std::string& key, const std::string& value) {
      command.push_back("--set");
      command.push_back(key + "=" + value);
    };
    set("node.name", Name(node));
    set("node.run_folder", RunFolder(node));
    set("pool.size", pool_size);
    set("chunk.size", "4MiB");
    set("chunk.piece", "1MiB");
    set("agent.idle_timeout", "20s");
    return command;
  }
  // For the output of a program that a test starts itself.
  std::string NewOutput() const { return folder_.NewOutput(); }
  // The same as one line, for a host of its own at that address (two_hosts.h).
  std::string AgentLine(int node, const std::string& address) const {
    std::string line;
    for (const std::string& word : AgentCommand(node)) line += word + " ";
    return line + "--set net.interface=" + address;
  }
  bool WaitForAgent(int node) const {
    for (int i = 0; i < 1000 && AgentPidAt(RunFolder(node)) == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return AgentPidAt(RunFolder(node)) != 0;
  }
  // Starts it with variables of its own: a kill point.
  ChildProcess& StartAgent(int node, const std::map<std::string, std::string>& environment, const char* pool_size = "64MiB") {
    agents_.push_back(std::make_unique<ChildProcess>(AgentCommand(node, pool_size), environment, folder_.NewOutput()));
    EXPECT_TRUE(WaitForAgent(node));
    EXPECT_EQ(AgentPidAt(RunFolder(node)), agents_.back()->pid());
    return *agents_.back();
  }
  // Whether the agent that StartAgent started last has ended by SIGKILL.
  bool AgentWasKilled() {
    const auto result = agents_.back()->Wait(std::chrono::seconds(20));
    return result.has_value() && !result->exited && result->signal == SIGKILL;
  }

  bool KillAgent(int node) const { return KillAgentAt(RunFolder(node)); }
  // The agent does nothing for a while, as behind a link that is cut.
  void Pause(int node, std::chrono::milliseconds time) const {
    const int pid = AgentPidAt(RunFolder(node));
    ASSERT_GT(pid, 0);
    kill(pid, SIGSTOP);
    std::this_thread::sleep_for(time);
    kill(pid, SIGCONT);
  }
  // The node is gone: its agent, its tiers, its records. What comes up under its name is a new one.
  void Lose(int node) const {
    EXPECT_TRUE(KillAgent(node));
    DeleteFiles(node);
  }
  // Of an agent that is dead. Its successor may be on its way: it finds all of it or nothing.
  void DeleteFiles(int node) const {
    const std::string deleted = folder_.memory_folder() + "/deleted-" + std::to_string(deleted_++);
    std::filesystem::rename(RunFolder(node), deleted);
    std::error_code ignored;
    std::filesystem::remove_all(deleted, ignored);
  }
  // The kedge command on that node.
  std::unique_ptr<ChildProcess> Tool(int node, const std::vector<std::string>& arguments) {
    const std::filesystem::path programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    std::vector<std::string> command = {programs.parent_path() / "bin/kedge"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const std::map<std::string, std::string> environment = {
        {"KEDGE_STORE_PATH", folder_.store()}, {"KEDGE_NODE", Name(node)},   {"KEDGE_NODE_RUN_FOLDER", RunFolder(node)},
        {"KEDGE_POOL_SIZE", "64MiB"},          {"KEDGE_CHUNK_SIZE", "4MiB"}, {"KEDGE_CHUNK_PIECE", "1MiB"},
        {"KEDGE_AGENT_IDLE_TIMEOUT", "20s"}};
    return std::make_unique<ChildProcess>(command, environment, folder_.NewOutput());
  }
  // Flips a bit at an eighth and at seven eighths of `words` wherever they lie in the node's pool; whether both were found.
  bool FlipInPool(int node, const std::vector<uint64_t>& words) const {
    const std::string path = RunFolder(node) + "/pool/pool";
    bool both = true;
    for (const size_t eighth : {1u, 7u}) {
      const std::string part(reinterpret_cast<const char*>(words.data() + words.size() * eighth / 8), 64);
      both = FlipBitIn(path, part, 8) > 0 && both;
    }
    return both;
  }
  std::string Log(int node) const {
    std::ifstream file(RunFolder(node) + "/agent.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  void ShowLog(int node) const {
    const std::string text = Log(node);
    constexpr size_t kShownMax = 16384;
    std::fprintf(stderr, "---- agent of %s\n%s----\n", Name(node).c_str(),
                 text.substr(text.size() - std::min(text.size(), kShownMax)).c_str());
  }

  const int nodes_;
  std::vector<std::string> domains_;
  std::vector<std::unique_ptr<ChildProcess>> agents_;
  mutable int deleted_ = 0;
  mutable ScenarioFolder folder_;
};

}  // namespace kedge::testing
