// Local retention: what stays on the node, and what goes when it is of no more use or room is short. A copy that is owed to
// somebody never goes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/space/room_giver.h"
#include "agent/tables/job.h"
#include "base/clock.h"

namespace kedge {

class AgentCore;
class Assignment;
class GapFiller;
class ImageFlusher;
class ImageTable;
class PassingChunks;

class LocalRetention : public RoomGiver {
 public:
  LocalRetention(AgentCore& core, Assignment& assignment, ImageFlusher& flush, GapFiller& gaps, ImageTable& images,
                 PassingChunks& passing);

  // Decides again what stays of a name, and carries it out: soon, once for all that happens until then, since a look goes over
  // all versions of the name. Removes versions, though not while somebody walks over them.
  void Reconsider(const Job& job, const std::string& name);
  void ReconsiderAll(const Job& job);
  void ReconsiderPending() override;
  // What its attempts went on from, as the store says: what the job has abandoned need not stay.
  void LearnRestarts(Job& job, const std::vector<RestoredRecord>& restarts);
  bool EvictOldest(TierUnit* unit, bool also_newest) override;
  bool ReleaseFlushed(TierUnit* unit) override;
  bool HasFilesIn(const TierUnit& unit) const override;

  // Another of its images is held by this node.
  void OnHeld(Version& version);
  // What could not be noted in a local record is tried again.
  void SaveUnsaved();
  // The bytes of the image here were found to be other ones than were captured.
  void OnDamaged(Version& version, uint32_t rank, const Status& why);
  // A version for this node alone with images in a tier that is lost goes to the store while this agent still has them open.
  void RescueLost(Version& version);

 private:
  // What a user wants gone of what the store has.
  CleanupReply Cleanup(const CleanupRequest& request);
  void ReconsiderNow(Job& job, const std::string& name);
  // The newest version of the name that this node's ranks could all go on from; null: there is none.
  const Version* NewestComplete(const Job& job, const std::string& name) const;
  // Versions whose flush has not begun when a newer one is whole (flush.skip_queued).
  void SkipQueued(Version& newest);

  AgentCore& core_;
  Assignment& assignment_;
  ImageFlusher& flush_;
  GapFiller& gaps_;
  ImageTable& images_;
  PassingChunks& passing_;
  std::set<NameKey> to_reconsider_;
  Duration reconsidering_took_{};  // the last time
};

}  // namespace kedge
