// Everything that one scenario leaves anywhere: a store, a node's run folder, an agent, an MPI library's shared memory. All
// of it goes with the object.
//
// The run folder lies on /dev/shm, as in production, under a name of its own, so that tests beside this one are not touched.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace kedge::testing {

class ScenarioFolder {
 public:
  ScenarioFolder();
  ~ScenarioFolder();
  ScenarioFolder(const ScenarioFolder&) = delete;
  ScenarioFolder& operator=(const ScenarioFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string store() const { return path_ + "/store"; }
  const std::string& run_folder() const { return run_folder_; }
  // On /dev/shm: the run folder, and what an MPI library shares between its ranks.
  const std::string& memory_folder() const { return memory_folder_; }
  // A file for the output of one more process. Any thread.
  std::string NewOutput();

  // What points a program at this scenario: store, run folder, a small pool, an agent that leaves soon.
  std::map<std::string, std::string> Environment() const;
  // The same for a launch under mpirun: root may, there may be more ranks than cores, and what Open MPI's ranks share lies in
  // this scenario's folders, where it is removed though the ranks were killed (on /dev/shm it would stay for ever).
  std::map<std::string, std::string> MpiEnvironment() const;
  // The process id of the agent that serves the run folder; 0: none.
  int AgentPid() const;
  // With SIGKILL; false: there is none.
  bool KillAgent();

 private:
  std::string path_;
  std::string memory_folder_;
  std::string run_folder_;
  std::atomic<int> outputs_{0};
};

// The process id of the agent that serves a run folder; 0: none.
int AgentPidAt(const std::string& run_folder);
// With SIGKILL, and waits until its socket is dead; false: there is none.
bool KillAgentAt(const std::string& run_folder);

// Flips one bit of the byte at `offset` of a file.
void FlipBit(const std::string& path, uint64_t offset);
// The same `at` bytes into `text` wherever that stands in the file; how often it does.
int FlipBitIn(const std::string& path, const std::string& text, size_t at);
// A file's bytes, read at once: byte by byte, unoptimised code takes seconds over a pool, and the idle agent leaves with it
// meanwhile.
std::string ReadWhole(const std::string& path);

}  // namespace kedge::testing
