// The tiers in use: opened at start and on demand (job.scratch), reserved and faulted in in the background, watched.
//
// What is private of a tier (slot table, how it is cut) lies in the run folder under tiers/NAME; only its slots lie where
// the tier is. A tier whose pool or folder was deleted is lost: it takes no more chunks, what was captured is still flushed
// from the open handles, its sessions are told to attach anew, and another one is made in its place.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/model.h"
#include "agent/tier_cut.h"
#include "placement/policy.h"

namespace kedge {

class Agent;

class Tiers {
 public:
  explicit Tiers(Agent& agent);
  ~Tiers();

  // The tiers that are configured for the node. Those that cannot be made are left out, with an error in the log.
  void OpenNode();
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
  // The slots of the tier whose chunks are gone are given out again: something may be assigned.
  bool IsReserving(const std::vector<TierUnit*>& tiers) const;
  // While somebody waits for bytes of other nodes, the preparation of others rests: it holds locks of the pool's file
  // and of this process's memory, at low priority. Each Hold is followed by a Release.
  void HoldPreparing() { ++preparing_held_; }
  void ReleasePreparing() { --preparing_held_; }

 private:
  struct Reservation;
  std::atomic<int> preparing_held_{0};
  struct Plan {
    std::string name;
    std::string scratch;
    TierKind kind = TierKind::kMemory;
    std::string path;
    std::optional<uint64_t> capacity_bytes;  // nothing: computed
  };
  Result<TierUnit*> Open(const Plan& plan);
  Result<TierCut> CutOf(const Plan& plan, const std::string& meta_folder) const;
  void ReserveInBackground(TierUnit* unit);
  void Lose(TierUnit* unit, const Status& why);

  Agent& agent_;
  uint32_t last_id_ = 0;
  std::vector<std::unique_ptr<TierUnit>> units_;
  std::vector<Plan> plans_;  // of units_, by index
  std::vector<std::unique_ptr<Reservation>> reservations_;
};

}  // namespace kedge
