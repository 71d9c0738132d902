// What is where: images from their first mailbox entry to their removal, the versions that they make up, and local retention.
//
// An image exists for the agent from ImageBegin (a large one: its pieces are flushed as they come) or ImageEnd on. With
// ImageEnd, once its local record is on file, it is at level LOCAL and survives client and agent. Everything that a client
// says is checked against the agent's own tables first: slots must be assigned to that session, ranges lie in them,
// records have their checksum, and the identity is the session's.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/space/room_giver.h"
#include "agent/tables/job.h"
#include "agent/tables/record_file.h"
#include "agent/tables/session.h"
#include "format/image_record.h"
#include "session/gap_table.h"

namespace kedge {

class AgentCore;
class Assignment;
class ImageFlusher;
class Throughput;
class Tiers;

// An image that lies in slots of the agent's own.
struct AdoptedImage {
  const ImageRecord* record = nullptr;
  uint64_t record_bytes = 0;
  uint32_t record_crc32c = 0;
  std::vector<OwnRange> chunks;  // of the record's chunk table; no unit: not on the node
  OwnRange record_range;
  bool for_store = false;   // it is owed to the store
  bool in_store = false;    // the version is complete there
  bool from_store = false;  // and it came from there, at least in part
  bool replace = false;     // in place of one that is here and bad
};

// What is said of an image that was found damaged.
Status DamagedHere(const Image& image);

class Images : public RoomGiver {
 public:
  Images(AgentCore& core, Assignment& assignment, ImageFlusher& flush, Throughput& throughput, Tiers& tiers)
      : core_(core), assignment_(assignment), flush_(flush), throughput_(throughput), tiers_(tiers) {}

  // ---- From a session's mailbox. An error means that the entry made no sense: it is refused, the session goes on. ----
  Status OnBegin(Session& session, const ImageBegin& begin);
  Status OnProgress(Session& session, const ChunkProgress& progress);
  Status OnEnd(Session& session, const ImageEnd& end);
  void OnAbort(Session& session, uint64_t serial);
  // Whether OnEnd can take it now: what its slots lack is there, or will never be. Else that is being copied, and the loop turns
  // when it is done; `may_wait`: for the end of that. Again for the same entry until it is true.
  bool IsFilled(Session& session, const ImageEnd& end, bool may_wait);
  // After a predecessor: what its mailbox says is the session's base is kept as that, if it was found.
  void RecoverBase(Session& session);
  // The session is over: what it has begun and not ended is dropped.
  void DropUnended(Session& session);

  // ---- Lookup ----
  Image* Find(uint64_t id) const;
  Version* FindVersion(const Generation& generation) const;
  // An image that has ended and lies whole on this node; else null.
  const Image* FindWhole(const Generation& generation, uint32_t rank) const;
  Level LevelOf(const Version& version) const;
  // The same without what the store has: what the nodes alone vouch for.
  static Level LevelByNodes(const Version& version);
  // Images that are still on their way to `level` (kLast: to any), of one job or (null) of all.
  void CountPending(const Job* job, Level level, uint64_t* images, uint64_t* bytes) const;
  // The first of them, and how far the flush of each is, for people.
  std::string NamePending(const Job* job, Level level) const;
  // Whether there are any that this node must see to. Stops at the first.
  bool HasPending() const;
  // Those whose store is there, as far as is known.
  bool HasPendingWithStore() const;
  // Images that another node has taken over, which brings them to the store.
  uint32_t HandedOver() const;
  // Images that are being copied right now; one whose writer has paused does not count.
  uint32_t Capturing() const;
  bool HasFilesIn(const TierUnit& unit) const override;
  // Whether a copy here is needed by somebody: it is not in the store, or is owed to it.
  bool HasOnlyCopies() const;

  // ---- Restart ----
  std::vector<LocalVersion> LocalVersions(const LocalVersionsRequest& request) const;
  Result<OpenImageReply> Open(Session& session, const OpenImageRequest& request);
  Status Close(Session& session, uint64_t handle);
  void CloseAll(Session& session);

  // ---- Retention ----
  // Decides again what stays of a name, and carries it out: soon, once for all that happens until then, since a look goes over
  // all versions of the name. Removes versions, though not while somebody walks over them.
  void Reconsider(const Job& job, const std::string& name);
  void ReconsiderAll(const Job& job);
  void ReconsiderPending() override;
  // What its attempts went on from, as the store says: what the job has abandoned need not stay.
  void LearnRestarts(Job& job, const std::vector<RestoredRecord>& restarts);
  CleanupReply Cleanup(const CleanupRequest& request);
  PendingReply PendingOf(const PendingRequest& request) const;
  bool EvictOldest(TierUnit* unit, bool also_newest) override;
  bool ReleaseFlushed(TierUnit* unit) override;

  // A version for this node alone with images in a tier that is lost goes to the store while this agent still has them open.
  void RescueLost(Version& version);

  // ---- From flush and publication ----
  // The image reached its last level, or failed for good (image.failure).
  void OnSettled(Image& image);
  // The bytes of the image here were found to be other ones than were captured.
  void OnDamaged(Version& version, uint32_t rank, const Status& why);
  // `image` lets go of whatever held it back from removal (pieces in flight, readers).
  void OnReleased(Image& image);
  void SaveFile(Image& image);
  // What could not be noted in a local record (a full run folder) is tried again; until then no level is reported of it.
  void SaveUnsaved();

  // ---- Protection across nodes ----
  // The version has reached level NODE, or will not (version.node_failure).
  void OnProtected(Version& version);
  // An image that came from other nodes: its ranges are the image's from here on, unless an error is returned.
  Status Adopt(const AdoptedImage& adopted);

  // ---- Recovery ----
  // A predecessor's image; kCorrupt or kNotFound when its chunks are not there any more.
  Status Recover(const std::string& path, const ImageFile& file);
  // The images of a session that went with the predecessor though they had been handed over whole (images_release.cc): its
  // client is told.
  void TellGone(Session& session);
  // The greatest number of a session that has captured what was recovered; 0: none has.
  uint32_t LastSession() const;

  const std::unordered_map<uint64_t, Image*>& all() const { return by_id_; }

 private:
  struct Announced {  // an image as its end announces it, checked
    ImageRecord record;
    PlacementTable table;
    std::vector<ImageChunk> chunks;
    std::vector<std::vector<SummedRun>> captured;  // by chunk
    uint32_t record_crc32c = 0;
    GapTable gaps;
  };
  struct FoundPlaces {
    std::vector<ImageChunk> chunks;  // of the record's chunk table
    ImageChunk record;
    uint64_t record_bytes = 0;
    uint32_t record_crc32c = 0;
  };
  Status CheckRange(const Session& session, const SlotRange& range, TierUnit** unit) const;
  Result<Buffer> ReadRange(const Session& session, const SlotRange& range, TierUnit** unit) const;
  Status CheckIdentity(const Session& session, const ImageIdentity& identity) const;
  Result<Announced> ReadAnnouncement(const Session& session, const ImageEnd& end) const;
  // Its chunks by its table: `begun` is the image as far as progress has told it; nullptr: nothing has.
  Status FindChunks(const Session& session, const Image* begun, Announced* announced) const;
  Result<std::string> FilePath(const TierUnit& unit, const std::string& relative) const;
  Image& NewImage(Session& session, const ImageIdentity& identity, uint64_t serial, uint32_t due_levels);
  Version& VersionFor(Job& job, const ImageIdentity& identity, uint32_t node_ranks, uint32_t due_levels);
  // The one that is known, or a new one with nothing but its identity. REQUIRES: the job is known.
  Version& VersionOf(Job& job, const ImageIdentity& identity);
  // An image that this agent did not see captured, from its record and the places of record and chunks; in no table yet.
  Result<std::unique_ptr<Image>> MakeFound(const ImageRecord& record, FoundPlaces places) const;
  // Into the tables, of a version that has none of that rank.
  Image& Put(Version& version, uint32_t rank, std::unique_ptr<Image> image);
  // A local record's, which no other has had.
  std::string NewRecordPath(const Image& image) const;
  // A range of bytes from one slot to another.
  struct GapCopy {
    std::shared_ptr<Tier> from, to;
    uint32_t from_slot = 0, to_slot = 0;
    uint64_t from_offset = 0, to_offset = 0;
    uint64_t bytes = 0;
  };
  // Fills in `fill`, where there is something to do.
  Status BeginFill(Session& session, const ImageEnd& end, GapFill* fill);
  // What is to be copied for it, from `base`. kInvalidArgument: a gap that is not in both.
  static Result<std::vector<GapCopy>> PlanFill(const Announced& announced, const Image& base);
  static Status CopyGaps(const std::vector<GapCopy>& copies);
  // The fill's outcome, ok where there were no gaps; its base is let go of.
  Status EndFill(Session& session);
  void BecomeBase(Session& session, const Image& image);
  // False: its session builds an image on it right now. Else it is its session's base no more.
  bool MayGo(const Image& image) const;
  // Slots for whole chunks go back with the image's end.
  void ReturnFullSlots(Session& session, const Image& image);
  void OnHeld(Version& version);
  void ReconsiderNow(Job& job, const std::string& name);
  // The newest version of the name that this node's ranks could all go on from; null: there is none.
  const Version* NewestComplete(const Job& job, const std::string& name) const;
  void SkipQueued(Version& newest);
  void SetOwed(Image& image, bool owed);
  void UpdatePin(Image& image);
  // Takes the image out of all tables and frees its slots, as soon as nothing reads it.
  void Doom(Image& image);
  void RemoveNow(Image& image);
  // Its slots and files; the image is in no table any more.
  void FreePlaces(const Image& image);
  bool MayRelease(const Image& image, const ImageChunk& chunk) const;
  void Release(const Image& image, ImageChunk& chunk);
  // Whether it is still on its way to `level`; kLast: to any that its version is scheduled for.
  bool IsOwed(const Image& image, Level level = Level::kLast) const;
  bool IsOwedToStore(const Image& image) const;
  // The same of one that stays, and of that job or (null) of any: what CountPending counts.
  bool IsPending(const Image& image, const Job* job, Level level) const;
  // It is on its way to some level, and nobody else sees to that.
  bool KeepsAgent(const Image& image) const;

  AgentCore& core_;
  Assignment& assignment_;
  ImageFlusher& flush_;
  Throughput& throughput_;
  Tiers& tiers_;
  uint64_t last_id_ = 0;
  std::unordered_map<uint64_t, Image*> by_id_;
  std::set<uint64_t> unsaved_;  // images
  std::set<NameKey> to_reconsider_;
  Duration reconsidering_took_{};  // the last time
  struct Gone {
    ImageIdentity identity;
    uint32_t session_id = 0;
    uint64_t serial = 0;
  };
  std::vector<Gone> gone_;  // from Recover to TellGone
};

}  // namespace kedge
