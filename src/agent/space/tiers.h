// The tiers in use: opened at start and on demand (job.scratch), watched, and closed when they are of no use any more.
//
// What is private of a tier (slot table, how it is cut) lies in the run folder under tiers/NAME; only its slots lie where
// the tier is. A tier whose pool or folder was deleted is lost: it takes no more chunks, what was captured is still flushed
// from the open handles, its sessions are told to attach anew, and another one is made in its place.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/space/tier_cut.h"
#include "agent/tables/session.h"
#include "placement/policy.h"

namespace kedge {

class AgentCore;
class Assignment;
class FlushLoad;
class MemoryLedger;
class RoomGiver;
class Throughput;

class Tiers {
 public:
  Tiers(AgentCore& core, Assignment& assignment, FlushLoad& flush, RoomGiver& giver, MemoryLedger& memory, Throughput& throughput)
      : core_(core), assignment_(assignment), flush_(flush), giver_(giver), memory_(memory), throughput_(throughput) {}

  // The tiers that are configured for the node. Those that cannot be made are left out, with an error in the log.
  void OpenNode();
  // Those, each with the reason.
  struct Unusable {
    std::string name;
    std::string why;
  };
  const std::vector<Unusable>& unusable() const { return unusable_; }
  // What a job's session uses, fastest first: its scratch, or the node's. Opens the scratch when it is new.
  Result<std::vector<TierUnit*>> ForJob(const JobKeys& keys);

  std::vector<TierUnit*> units() const;
  TierUnit* FindUnit(uint32_t id) const;
  // The one in use under a placement's tier key, or null.
  TierUnit* FindKey(const std::string& key) const;

  // As the session sees it that asks for a place; null: as nobody in particular does.
  TierLoad LoadOf(const TierUnit& unit, const Session* session = nullptr) const;
  // Looks whether files and folders are still there; with `make_anew` replaces what is lost.
  void CheckPresent(bool make_anew);
  void UpdateControl();
  // Deletes the files of all tiers: nothing in them is of use any more.
  void RemoveAll();
  // Closes the scratch of jobs that are over and lost tiers, once nobody has anything there; a scratch with its files.
  void CloseUnused();

 private:
  struct Plan {
    std::string name;
    std::string scratch;
    TierKind kind = TierKind::kMemory;
    std::string path;
    std::optional<uint64_t> capacity_bytes;  // nothing: computed
  };
  Result<TierUnit*> Open(const Plan& plan);
  Result<TierCut> CutOf(const Plan& plan, const std::string& meta_folder) const;
  bool IsUsed(const TierUnit& unit) const;
  void Lose(TierUnit* unit, const Status& why);
  void Remove(const TierUnit& unit);

  AgentCore& core_;
  Assignment& assignment_;
  FlushLoad& flush_;
  RoomGiver& giver_;
  MemoryLedger& memory_;
  Throughput& throughput_;
  uint32_t last_id_ = 0;
  std::vector<std::unique_ptr<TierUnit>> units_;
  std::vector<Plan> plans_;  // of units_, by index
  std::vector<Unusable> unusable_;
};

}  // namespace kedge
