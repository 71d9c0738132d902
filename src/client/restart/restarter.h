// Restores: the newest version that all ranks can restore, agreed before, confirmed after.
//
// A whole restore overwrites nothing before all ranks have found that the image fits what is declared. When a rank fails after
// that, all ranks go to the next older version, and say so. What other numbers of ranks have taken is redistributed. Part looks
// at what it restores only. The job goes on from what was restored, and abandons what is newer; not from what was only read:
// another rank's image, or what was begun to be read. Guarded by the context's lock; the calls marked collective are made by all
// ranks, unless another rank's image was chosen with As.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/core/core.h"
#include "client/core/ledger.h"
#include "client/regions/routed_files.h"
#include "client/restart/image_opener.h"
#include "client/restart/restart_tally.h"
#include "client/session/agent_session.h"

namespace kedge::client {

class Restarter {
 public:
  // All outlive the restarter. `files_folder`: where routed files lie.
  Restarter(Core* core, Ledger* ledger, AgentSession* session, const std::string& files_folder);

  Result<int64_t> Newest(const std::string& name, int64_t at_most);  // collective
  Result<int64_t> Whole(const std::string& name, int64_t at_most);   // collective
  enum class Purpose { kRestore, kRead };
  Status Begin(const std::string& name, int64_t version, Purpose purpose);  // collective
  Status Part(kedge_selection selection, const int* ids, size_t count);
  Result<std::string> RouteFile(const std::string& original);
  Status End(bool success);  // collective
  // Reads the image of `rank` from now on, not collectively; -1: the context's own again.
  Status As(int rank);

  bool active() const { return image_ != nullptr; }
  // Whether the job goes on from what the restart under way, or the next Whole, brings.
  bool goes_on() const { return !alone() && purpose_ == Purpose::kRestore; }
  // The image between begin and end; kFailedPrecondition outside.
  Result<const ImageRecord*> Record() const;
  // The saved region or object with this id; nullptr: none.
  const Region* FindSaved(int id) const;
  void Abandon();

 private:
  bool alone() const { return as_rank_ >= 0; }
  uint32_t source_rank() const { return alone() ? static_cast<uint32_t>(as_rank_) : core_->rank(); }
  Status Agree(const Status& mine) const { return alone() ? mine : core_->collective.Agree(mine); }
  // What a call asks for.
  struct Bound {
    int64_t at_most = -1;     // negative: no limit
    bool is_exactly = false;  // no older one instead
    bool Allows(int64_t version) const { return is_exactly ? version == at_most : at_most < 0 || version <= at_most; }
  };
  // What all ranks can restore, as far as the nodes that protect each other know; from wherever it is when `everywhere` is set,
  // or when a rank has a newer one that others lack.
  struct Choice {
    std::vector<RestoreCandidate> candidates;
    std::vector<RestoreCandidate> abandoned;  // the ranks could restore them, but the job has gone back since
    bool everywhere = false;
    Status store;  // why rank 0 could not look into it, or else some rank not ask its agent
    // As ImageOpener::Found has them, by this rank's agent.
    std::string lost;
    std::string silent;
    std::optional<RestoreCandidate> safe;  // the newest that nobody has withdrawn
    std::set<int64_t> known;               // versions of which nodes have some image
    std::string incomplete;                // what the store has of the newest, where all ranks can restore none
  };
  // Collective, unless alone. kUnavailable: nodes of the attempt that do not answer may have what some ranks lack of a newer one.
  Result<Choice> Look(const std::string& name, const Bound& bound, bool everywhere);
  static Status WhatSilentNodesMayHave(const std::string& name, const ImageOpener::Found& mine, const CommonCandidates& common);
  // What the store has (`known` as in ImageOpener::Stored), and what may be chosen, as rank 0 finds it. Collective, unless alone.
  Result<StoredCandidates> ShareStored(const std::string& name, int64_t at_most, const std::optional<RestoreCandidate>& known);
  Result<CandidateRule> ShareRule(const std::string& name, const Bound& bound);
  // What restart.version asks for cannot be had: an error where it is there in part or may be, and a warning where it is not.
  // `silent`: of this rank; `store`: why rank 0 could not look into it. Collective, unless alone.
  Status WhetherAskedIsMissed(const std::string& name, const AskedVersion& asked, const CommonCandidates& common,
                              const std::string& silent, const Status& store) const;
  // Nothing was found to restore, which `none` says: whether there was something once (kLost), or that cannot be told.
  // Collective, unless alone.
  Status WhetherLost(const std::string& name, int64_t at_most, const Choice& choice, const Status& none);
  // The same for all ranks, as WhatIsLost.
  struct Loss {
    std::vector<uint32_t> ranks;
    std::string what;    // empty: no agent knows of a loss
    std::string silent;  // nodes that some agent had no answer from
    std::string safe;    // which version some node has in part, as it knows; empty: none
  };
  Result<Loss> GatherLoss(const Choice& choice) const;
  Status WhatIsLost(const std::string& name, const Choice& choice) const;
  // Collective, unless alone.
  Status TryWhole(const std::string& name, const RestoreCandidate& candidate);
  // The same of a version of another number of ranks.
  Status TryRedistributed(const std::string& name, const RestoreCandidate& candidate);
  Status OpenAndCheck(const std::string& name, const RestoreCandidate& candidate, bool check_regions);
  Status CheckRanks(const RestoreCandidate& candidate) const;
  Status CheckRegion(DeclaredRegion* declared) const;
  Status CheckAll();
  // Whether the restart brings blocks of the heap back: not where another rank's image, or a version, is only read.
  bool RestoresHeap() const {
    return goes_on() && core_->regions.current_name().empty() && image_ && image_->record().group.empty();
  }
  // Once it is known to fit: the blocks are there for Read.
  Status MakeHeap();
  Status Read(const std::vector<DeclaredRegion*>& regions);
  Status ReadOnce(const std::vector<DeclaredRegion*>& regions);
  Status Deserialize(DeclaredRegion* declared, uint32_t region);
  // The ranks go on from here: noted before anything that follows can be complete. kBusy: a newer attempt has taken over.
  // Collective.
  Status NoteRestored(const Generation& generation);
  Status NoteInStore(const RestoredRecord& record) const;
  void CountRestored();
  void Count(const OpenImage& image);
  // The restart that is being counted has succeeded on all ranks. Collective.
  void CountRestart(bool goes_on);

  Core* core_;
  Ledger* ledger_;
  AgentSession* session_;
  ImageOpener opener_;
  RoutedFiles files_;
  int as_rank_ = -1;
  Purpose purpose_ = Purpose::kRestore;  // of the restart in parts that is under way
  std::unique_ptr<OpenImage> image_;
  Generation restored_;  // of the restart that is being counted
  RestartTally tally_;
  uint64_t restart_number_ = uint64_t{1} << 63;  // marks regions restored; checkpoints count from 1
  uint64_t heap_restored_by_ = 0;                // the restart in parts, by its number
};

}  // namespace kedge::client
