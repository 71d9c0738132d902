// Flush: captured pieces to the image's object in the store, in the background.
//
// A piece is queued as soon as it is captured; which one goes next is the placement policy's to say (by default in order
// of arrival). At most flush.workers pieces are under way, and no more bytes than flush.rate allows. A write that fails
// gives up the whole object: once its pieces are back, the image is written again from the tier under a new temporary
// name, a bounded number of times with growing pauses; then it has failed, and everybody is told. While the store is not where
// it was, the image waits for it, for as long as it takes.
//
// What is published is what was captured: the checksum of each piece is taken after it was written, from where it lies, so that
// what changed there before is seen; when the image record is known, all of them are held against its extents. Where they
// differ, the image is read again. If its bytes here are wrong, another copy is brought from the nodes where there is one, and
// else it has failed; nobody takes it for a version any more.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "agent/images/image_flusher.h"
#include "agent/space/flush_load.h"
#include "agent/tables/job.h"
#include "placement/policy.h"

namespace kedge {

class AgentCore;
class Assignment;
class AttemptWatch;
class ImageTable;
class LocalRetention;
class PendingImages;
class Throughput;
class Tiers;

class Flush : public FlushLoad, public ImageFlusher {
 public:
  Flush(AgentCore& core, Assignment& assignment, AttemptWatch& attempt_watch, ImageTable& images, PendingImages& pending,
        LocalRetention& retention, Throughput& throughput, Tiers& tiers);

  void QueueCaptured(Image& image, uint32_t chunk) override;
  void QueueEnded(Image& image) override;
  void Start(Image& image) override;
  uint32_t SendToStore(Version& version) override;
  void Forget(Image& image) override;
  bool HasBegun(const Image& image) const override;
  // The object of this try is worth nothing: tries again, or gives up.
  void Retry(Image& image, Status why);
  // Those of the job (null: of all) that were given up and lie here still, from the beginning: somebody asks for them.
  void TryAgain(const Job* job);
  // What its images wait for, and that they do no longer.
  void OnStoreAbsent(Version& version, const Status& why);
  void OnStoreThere(Version& version);

  // The nodes have agreed, or are not waited for: what is not shipped of the version is written from here.
  void WriteHere(Version& version);
  // Another node is to write the image. REQUIRES: it has ended, and nothing of it has begun.
  void Ship(Image& image);
  // That one does not.
  void TakeBack(Image& image);
  // An image of another node that is to be written from here, in one object with those of the version that lie here.
  std::shared_ptr<FlushObject> MakeCarried(Job& job, const Generation& generation, uint32_t rank, uint64_t image_bytes);
  // The one object with its images that this node writes of the version, to be lent to others; it is to have about so many bytes
  // of this node's. Null: that has begun for this node alone.
  std::shared_ptr<ObjectUnderWay> Share(const Generation& generation, uint64_t own_bytes);
  // What an image takes in an object with others, if it is not written again.
  uint64_t RoomFor(const Image& image) const;
  // Whether all of the job's images are written as they are.
  static bool WritesWhole(const Job& job);
  // Of the blocks that its images are compared by.
  uint32_t BlockBytesOf(const Job& job) const;
  // What reducing an image has saved, for the next of its rank.
  static void NoteReduced(Job& job, const std::string& name, uint32_t rank, FlushObject& object);

  void SetState(Image& image, FlushState state) override;
  void SetEnded(Image& image) override;

  // Hands pieces to workers as far as allowed.
  void Dispatch();
  uint32_t in_flight() const { return in_flight_; }
  uint64_t queued_bytes() const { return queued_bytes_; }
  uint64_t QueuedBytesOf(uint32_t unit) const override;
  NodeLoad Load(uint64_t average_bytes_per_second) const override;
  const FlushMeter& meter() const override { return meter_; }

 private:
  struct Piece {
    uint64_t image_id;
    uint32_t epoch;
    uint32_t chunk;
    uint64_t offset;
    uint64_t bytes;
    uint64_t sequence;
    uint64_t flight = 0;  // while it is under way: of the meter
  };
  static void CountChunks(Image& image);
  static void SetAbsence(Version& version, const Status& why);
  void QueuePieces(Image& image, uint32_t chunk, bool whole_only);
  // As far as it is captured.
  void QueueAll(Image& image);
  void SendPiece(Image& image, const Piece& piece);
  std::shared_ptr<FlushObject> MakeObject(const Image& image);
  // `image_bytes`: nothing, while they are not known.
  Reduction ReductionFor(Job& job, const std::string& name, uint32_t rank, std::optional<uint64_t> image_bytes) const;
  // In an object of several images of the version.
  std::shared_ptr<FlushObject> MakePart(Job& job, const Generation& generation, uint32_t rank,
                                        std::shared_ptr<ObjectUnderWay> object, uint64_t expected_bytes, Reduction reduction);
  // Null: its images are not to lend each other blocks.
  static std::shared_ptr<reduce::FirstBlocks> NodeBlocksOf(Version& version);
  void OnPieceDone(const Piece& piece, Duration took, const Result<PieceWritten>& written);
  void CheckWritten(Image& image);
  // The first bytes in the object that are not what was captured.
  static std::optional<ChunkPlace> FirstWrong(const Image& image);
  void WriteAgain(Image& image, const Status& why);
  void WriteAlone(Image& image, const Status& why);
  // What was written is not what was captured: does it lie so here?
  void Examine(Image& image, const Status& why);
  void OnDamaged(Image& image, const Status& why);
  void DropObject(Image& image);
  // It is on its way no more, which others of its version may have waited for.
  void TakeOut(Image& image, FlushState state);
  void LeaveOut(Image& image, const Status& why);
  void GiveUp(Image& image, const Status& why);
  bool RateAllows();
  uint32_t WorkersNow();

  AgentCore& core_;
  Assignment& assignment_;
  AttemptWatch& attempt_watch_;
  ImageTable& images_;
  PendingImages& pending_;
  LocalRetention& retention_;
  Throughput& throughput_;
  Tiers& tiers_;
  const uint32_t cpus_;
  struct Queue {
    std::deque<Piece> pieces;
    uint64_t bytes = 0;  // of these
  };
  Piece Take(Queue& queue);
  std::map<uint32_t, Queue> queues_;  // by tier unit; 0: routed files
  NodeObjects node_objects_;
  uint64_t last_sequence_ = 0;
  uint64_t queued_bytes_ = 0;
  uint32_t in_flight_ = 0;
  FlushMeter meter_;
  bool rate_timer_ = false;
  int64_t held_since_ns_ = 0;  // for the captures under way; 0: it is not
};

}  // namespace kedge
