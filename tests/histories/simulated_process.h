// What a thread that stands for a process of its own takes for the machine: a file system, a clock, who it is, who else lives.
//
// As long as a SimulatedProcess is entered on a thread, the doors of src/os and the clock lead to it (by the linker's --wrap, in
// simulated_process.cc); on every other thread they lead to the real machine. Sleep passes virtual time and no other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/clock.h"
#include "os/files/file_system.h"
#include "os/testing/fault_plan.h"
#include "os/testing/faulty_file_system.h"
#include "os/testing/simulated_file_system.h"

namespace kedge::histories {

// The machine that all of them share: a disk, a clock, and the processes that are alive.
class SimulatedMachine final : public Clock {
 public:
  explicit SimulatedMachine(uint64_t seed) : disk_({.seed = seed}) {}

  os::testing::SimulatedFileSystem& disk() { return disk_; }
  int64_t NowNs() const override { return now_ns_; }
  // Called after time has passed: who lives renews its lease then.
  void OnPassing(std::function<void()> do_then) { on_passing_ = std::move(do_then); }
  void Pass(Duration duration) {
    now_ns_ += duration.count();
    disk_.PassTime(duration);
    if (on_passing_) on_passing_();
  }
  std::set<int>& living() { return living_; }  // process ids
  // The clock on the wall of a node, which may be stepped.
  void StepClock(int node, Duration by) { clock_steps_[node] += by; }
  Duration ClockStepOf(int node) const {
    const auto step = clock_steps_.find(node);
    return step == clock_steps_.end() ? Duration{} : step->second;
  }

 private:
  os::testing::SimulatedFileSystem disk_;
  int64_t now_ns_ = 1'000'000'000'000;
  std::function<void()> on_passing_;
  std::set<int> living_;
  std::map<int, Duration> clock_steps_;
};

// Watchers run in real time, also those of ranks that are frozen: on a busy machine they would renew leases that the world lets
// run out. It renews those of the others.
class ProcessFileSystem final : public os::testing::FaultyFileSystem {
 public:
  using FaultyFileSystem::FaultyFileSystem;
  Status SetModifiedTime(const std::string&, int64_t) override { return Status::Ok(); }
};

class SimulatedProcess {
 public:
  // The machine outlives it. Processes of different namespaces do not see each other.
  SimulatedProcess(SimulatedMachine& machine, int id, int node, uint64_t pid_namespace);
  ~SimulatedProcess();
  SimulatedProcess(const SimulatedProcess&) = delete;
  SimulatedProcess& operator=(const SimulatedProcess&) = delete;

  // The calling thread is this process from now on; null: none.
  static void Enter(SimulatedProcess* process);
  static SimulatedProcess* Current();

  SimulatedMachine& machine() { return machine_; }
  os::FileSystem& file_system() { return file_system_; }
  // Of this process's calls alone.
  os::testing::FaultPlan& faults() { return faults_; }
  bool IsDead() const { return faults_.IsKilled(); }
  // It makes no more calls.
  void Die();
  int id() const { return id_; }
  int64_t WallTimeNs() const;
  uint64_t pid_namespace() const { return pid_namespace_; }

 private:
  SimulatedMachine& machine_;
  const int id_;
  const int node_;
  const uint64_t pid_namespace_;
  os::testing::FaultPlan faults_;
  ProcessFileSystem file_system_;
};

}  // namespace kedge::histories
