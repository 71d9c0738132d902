// The fixture of the tests of staging agents: ranks on two virtual nodes, and staging agents on two more.
#pragma once

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/protect/protect_fixture.h"

namespace kedge::testing {

using namespace std::chrono_literals;
namespace files = std::filesystem;

// Ranks on nodes 0 and 1; 2 and 3 are for staging agents.
class StagingTest : public ProtectTest {
 protected:
  StagingTest() { files::create_directory(folder_); }
  ChildProcess& StartStager(int node, const std::map<std::string, std::string>& environment = {}, const char* flush_rate = "0",
                            const char* pool_size = "64MiB") {
    std::vector<std::string> command = nodes_.AgentCommand(node, pool_size);
    command.insert(command.end(), {"--set", "agent.staging=" + folder_, "--set", "flush.rate=" + std::string(flush_rate)});
    stagers_.push_back(std::make_unique<ChildProcess>(command, environment, nodes_.NewOutput()));
    EXPECT_TRUE(stagers_.back()->WaitForOutput("this agent writes for other nodes", 20s)) << stagers_.back()->Output();
    return *stagers_.back();
  }
  void EndStagers() {
    for (const auto& stager : stagers_) {
      kill(stager->pid(), SIGTERM);
      EXPECT_TRUE(stager->Wait(20s).has_value());
    }
    stagers_.clear();
  }
  std::string Keys() const { return "staging.folder=" + folder_ + "\n"; }
  // From the store alone.
  void ExpectStored(int64_t version) {
    EndStagers();
    for (const int node : {0, 1}) {
      if (nodes_.KillAgent(node)) nodes_.DeleteFiles(node);
    }
    EXPECT_GT(ExpectRestart(places_, "", version), 0u);
  }

  const std::string folder_ = nodes_.RunFolder(0) + "-staging";
  std::vector<std::unique_ptr<ChildProcess>> stagers_;
  const std::vector<int> places_ = {0, 0, 1};
};

}  // namespace kedge::testing
