// A history in one process, in virtual time, on a simulated disk (os/testing/simulated_disk.h), the same every time.
//
// Real: all of libkedge behind kedge.h, and all of the store's catalog: attempts and leases, publication, retention, lineage,
// restart and its agreement. Ranks are threads that take turns (rank_threads.h); each stands for a process that may die at any
// of its calls, in the middle of a checkpoint too; the disk may lose power, with all that was not synced.
//
// Not simulated: agents. Their event loop, their workers and the network between them wait for descriptors and real time, so
// that simulated jobs run without (job.mode = "sync"): what only an agent does (levels LOCAL and NODE, tiers, flushes that come
// late) is what histories with real processes are for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/histories/rank_threads.h"
#include "tests/histories/simulated_process.h"
#include "tests/histories/world.h"

namespace kedge::histories {

class SimulatedWorld final : public World {
 public:
  explicit SimulatedWorld(const Setup& setup);
  ~SimulatedWorld() override;

  std::vector<Answer> Launch(int launch, const std::vector<int>& places, bool rival) override;
  std::vector<Answer> Restart(int launch, int64_t at_most, bool in_parts) override;
  std::vector<Answer> Read(int launch, int64_t version) override;
  std::vector<Answer> Checkpoint(int launch, const std::vector<int>& ranks, const std::vector<int>& takings,
                                 const CheckpointCall& call) override;
  std::vector<Answer> Wait(int launch, int64_t version, kedge_level level) override;
  std::vector<Answer> Test(int launch, int64_t version) override;
  std::vector<Answer> Newest(int launch, int64_t at_most) override;
  std::vector<Answer> Pending(int launch) override;
  std::vector<Answer> End(int launch, bool drain) override;
  void Kill(int launch) override;
  void Freeze(int launch) override;
  void Thaw(int launch) override;
  bool Fault(const Step& step) override;
  void MendRanks(int launch) override;
  void Mend() override;
  std::vector<std::string> Leftovers() override;

 private:
  struct Launched {
    std::unique_ptr<RankThreads> ranks;
    bool frozen = false;
    int first_node = 0;  // rank 0's
  };

  std::string Overrides(int node) const;
  std::vector<Answer> TryLaunch(int launch, const std::vector<int>& places, bool rival);
  RankThreads& Ranks(int launch) { return *launches_.at(launch).ranks; }
  void RenewLease();
  bool BreakStore(const std::string& how);
  bool FailRank(const Step& step);
  bool FlipInStore(int64_t version);

  const Setup setup_;
  SimulatedMachine machine_;
  std::map<int, Launched> launches_;
  int holder_ = 0;  // the launch that has got the job last
  int next_process_ = 1000;
  uint64_t power_cuts_ = 0;
};

}  // namespace kedge::histories
