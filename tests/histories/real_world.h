// A history with real processes: each rank is one (actor.cc), each virtual node has a real agent, the store (or its server, of a
// bucket) is real, and so are the faults, but for errors of the file system, clocks, cut connections and refused requests, which
// are put before it (os/testing/steering.h, node_faults.h, bucket_server.h). Store and run folders lie on /dev/shm, directory
// tiers, a job.scratch and the objects of a bucket in the temporary folder.
//
// Everything goes with the object.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/histories/bucket_server.h"
#include "tests/histories/burst_server.h"
#include "tests/histories/rank_process.h"
#include "tests/histories/world.h"
#include "tests/support/child_process.h"
#include "tests/support/scenario_folder.h"

namespace kedge::histories {

class RealWorld final : public World {
 public:
  // `programs`: the folder of histories_actor and histories_agent; beside it is `bin`, with the kedge command.
  RealWorld(const Setup& setup, std::string programs);
  ~RealWorld() override;

  std::vector<Answer> Launch(int launch, const std::vector<int>& places, bool rival) override;
  std::vector<Answer> Restart(int launch, int64_t at_most, bool in_parts) override;
  std::vector<Answer> Read(int launch, int64_t version) override;
  std::vector<Answer> Checkpoint(int launch, const std::vector<int>& ranks, const std::vector<int>& takings,
                                 const CheckpointCall& call) override;
  std::vector<Answer> Wait(int launch, int64_t version, kedge_level level) override;
  std::vector<Answer> Test(int launch, int64_t version) override;
  std::vector<Answer> Newest(int launch, int64_t at_most) override;
  std::vector<Answer> Pending(int launch) override;
  std::optional<Answer> Look(int node) override;
  std::vector<Answer> End(int launch, bool drain) override;
  void Kill(int launch) override;
  void Freeze(int launch) override;
  void Thaw(int launch) override;
  bool Fault(const Step& step) override;
  void MendRanks(int launch) override;
  void Mend() override;
  bool HasFileTemporaries() override { return !FileTemporaries().empty(); }
  std::vector<std::string> Leftovers() override;
  std::vector<std::string> LeftByAgents(Held held) override;

  // What ranks and agents had to say, for a person.
  std::string Logs() const;

 private:
  using Ranks = std::vector<std::unique_ptr<RankProcess>>;

  // On a node beside the others, with the number that follows theirs.
  void StartStager();
  std::string StagingFolder() const { return folder_.memory_folder() + "/staging"; }
  // The store's folder; of a server: where it keeps the objects.
  std::string StoreFolder() const {
    const bool is_on_buffer = burst_.has_value() && !setup_.drains;
    return bucket_ ? bucket_->Folder() : is_on_buffer ? burst_->Folder() : folder_.memory_folder() + "/store";
  }
  std::string StorePath() const { return bucket_ ? bucket_->StorePath() : burst_ ? burst_->StorePath() : StoreFolder(); }
  std::unique_ptr<Store> OpenStore() const;
  // Of ranks, agents and tools.
  std::map<std::string, std::string> Environment() const;
  std::string RunFolder(int node) const { return folder_.memory_folder() + "/n" + std::to_string(node); }
  // Of all nodes: each has a folder of its own below it.
  std::string TierFolder(bool rival) const { return folder_.path() + (rival ? "/tier-rival" : "/tier"); }
  std::string OwnTierFolder(int node) const;
  // Of a rank, or where they have parts (Share) of all.
  size_t ImageBytes() const;
  std::string TierKeys(bool rival) const;
  std::string Steering() const { return folder_.path() + "/steering"; }
  std::string UsersFolder() const { return folder_.path() + "/results"; }
  std::string Overrides(int node, bool rival) const;
  std::vector<Answer> TryLaunch(int launch, const std::vector<int>& places, bool rival);
  std::vector<Answer> TellAll(int launch, const std::string& line);
  std::vector<Answer> HearAll(Ranks& ranks);
  bool FailRank(const Step& step);
  bool Die(const Step& step);
  bool SignalRank(const Step& step, int signal);
  // What was published to the users' folder and is no whole file of the rank and version that its name says.
  std::vector<std::string> BadFiles() const;
  std::vector<std::string> FileTemporaries() const;
  // On /dev/shm, and neither the store's nor a node's.
  std::vector<std::string> StrayMemory() const;
  bool BreakStore(const std::string& how);
  static bool BreakBuffer(BurstServer& server, const std::string& how);
  bool Flip(const Step& step);
  bool FlipParity(int node) const;
  bool SignalAgent(int node, int signal);
  bool StepClock(int node, int64_t seconds) const;
  void ContinueAgents();
  void LoseNode(int node);

  const Setup setup_;
  const std::string programs_;
  testing::ScenarioFolder folder_;
  std::optional<BucketServer> bucket_;
  std::optional<BurstServer> burst_;
  std::optional<BurstServer> partner_;
  std::map<int, Ranks> launches_;
  std::map<int, std::vector<int>> places_;  // of their ranks
  struct Dying {
    std::set<int> ranks;
    std::optional<int> node;             // which is lost with them
    std::chrono::microseconds after{0};  // their next checkpoint has begun
  };
  std::optional<Dying> dying_;
  std::map<int, int> stopped_agents_;  // node to process id
  bool another_store_stood_ = false;   // where the store was while it was away: what is owed to that one waits for ever
  int rendezvous_ = 0;
  int looks_ = 0;
  std::unique_ptr<testing::ChildProcess> stager_;
};

}  // namespace kedge::histories
