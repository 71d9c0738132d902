// The table of images: one of each rank of a version, with where its chunks lie and how far its flush is. The room images keeps
// it; flush has the fields of the flush, protect none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/tables/flush_object.h"
#include "agent/tables/summed_runs.h"
#include "agent/tables/tier_unit.h"
#include "base/clock.h"
#include "base/status.h"
#include "format/image_record.h"
#include "schedule/schedule.h"

namespace kedge {

struct Version;

// Bytes of an image's chunk.
struct ChunkPlace {
  uint32_t chunk = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// In a slot, in a file, or (neither) in the store already.
struct ImageChunk : SlotPlace {
  uint64_t bytes = 0;
  std::string file;               // a routed file on the node, its whole path
  TierUnit* file_unit = nullptr;  // the tier in whose folder it lies
  // Where it goes in the image's object; `in_own_object` false: it lies in another object of the store already.
  bool in_own_object = true;
  uint64_t object_offset = 0;
  uint64_t captured_bytes = 0;
  uint64_t queued_bytes = 0;        // handed to the flush so far
  uint64_t written_bytes = 0;       // of these, those in the image's object
  std::vector<SummedRun> written;   // as they went there, in any order
  std::vector<SummedRun> captured;  // by the image record, once that is known
  bool is_flushing = false;         // counted in unit->flushing_chunks
  // Its slot was wanted by somebody else (images/passing_chunks.h): the object under way holds the only copy until it is stored.
  // `unit` is null; slot, generation and offset tell where it was.
  bool released = false;

  bool IsLocal() const { return unit != nullptr || !file.empty(); }
  // Whether the other is said of the same bytes in the same slot, which go to the same place of the object.
  bool IsSame(const ImageChunk& other) const { return place() == other.place() && object_offset == other.object_offset; }
  const SlotPlace& place() const { return *this; }
  void PutIn(const SlotPlace& place) { static_cast<SlotPlace&>(*this) = place; }
  // Where a worker reads so many bytes of it, from its byte `at` on.
  PieceSource Source(uint64_t at, uint64_t source_bytes) const;
  // Whether its flush is one that will free a slot (TierUnit::flushing_chunks).
  void CountAsFlushing(bool is_one);
};

// How long to wait before something that has failed is tried again.
struct RetryPauses {
  uint32_t failures = 0;  // but for the next
  uint32_t absences = 0;  // of these, those for which nothing but time is needed: the store was not there

  // After `why`: four times as long each, up to a few seconds where only time is needed.
  Duration Next(const Status& why);
};

enum class FlushState : uint8_t {
  kNone,      // not owed to the store
  kFlushing,  // pieces are queued or under way, or it is not captured yet
  kWritten,   // all pieces are in the object; to be published
  kPublishing,
  kStored,   // its object and part record are durable
  kWaiting,  // failed, to be tried again
  kShipped,  // another node writes it (gather/shipper.h)
  kFailed,   // given up; `failure` says why
};
// For people: "flushing".
const char* FlushStateName(FlushState state);

struct Image {
  uint64_t id = 0;
  Version* version = nullptr;
  uint32_t rank = 0;
  uint32_t session_id = 0;  // who captured it; the session may be gone
  uint64_t serial = 0;
  bool ended = false;
  bool recovered = false;            // captured before this agent began
  uint32_t brought_for_attempt = 0;  // it came from other nodes then; 0: captured here
  int64_t progress_ns = 0;           // when its client was last heard of it
  int64_t ended_ns = 0;
  std::vector<ImageChunk> chunks;  // of the chunk table, as far as they are known
  ImageChunk record;               // image record and placement table
  uint64_t record_bytes = 0;       // of the image record alone
  uint32_t record_crc32c = 0;      // of the image record alone
  uint64_t record_object_offset = 0;
  uint64_t image_bytes = 0;
  bool has_files = false;
  bool files_published = false;
  std::string record_path;  // its local record
  bool is_saved = false;    // that was written: a successor of this agent finds the image

  bool pinned = true;  // its chunks count as pinned in their slots
  bool owed = true;    // as retention decided last
  uint32_t readers = 0;
  bool doomed = false;        // to be removed as soon as nobody reads it
  bool is_disagreed = false;  // its rank was told that another has taken another version (takings.h)

  FlushState flush = FlushState::kNone;
  Duration flush_time{};        // of the present object's pieces, one after the other
  PieceWritten flush_written;   // of these, what the store has taken and how long that took
  bool is_handed_over = false;  // shipped, and whole on that other node, which owes it to the store from then on
  std::shared_ptr<FlushObject> object;
  uint32_t flush_epoch = 0;  // counts the objects begun; answers of an earlier one are passed over
  bool is_alone = false;     // it borrows blocks of no other image any more: one that had some was not published with it
  uint32_t pieces_queued = 0;
  uint32_t pieces_in_flight = 0;
  RetryPauses tries;
  Status flush_error;    // of the present try: acted upon when its pieces have come back
  Status failure;        // for good
  bool damaged = false;  // its bytes here are not those that were captured

  // What follows from its record, once `chunks` are all there.
  void Describe(const ImageRecord& by);
  // Whether it is still on its way to `level`; kLast: to any that its version is scheduled for.
  bool IsOwed(Level level = Level::kLast) const;
  // The same of the store alone, or of its routed files' places.
  bool IsOwedToStore() const;
  // To the store: its slots will become free by that.
  bool IsOnItsWay() const;
  // From this node.
  bool IsWrittenHere() const { return IsOnItsWay() && flush != FlushState::kShipped; }
  bool HasReleased() const;
  // As far as is known: it is not at level NODE, and not in the store or on its way there, for which another one is looked for.
  bool HasNoOtherCopy() const;
  // Part of it lies in a tier that is lost: this agent can still read it, and nobody after it.
  bool IsLost() const;
  // Function(SlotSpace&, slot) for each chunk in a slot, and for the record.
  template <typename Function>
  void ForEachSlot(Function function) const {
    for (const ImageChunk& chunk : chunks) {
      if (chunk.unit != nullptr) function(*chunk.unit->space, chunk.slot);
    }
    if (record.unit != nullptr) function(*record.unit->space, record.slot);
  }
  // Part of it is only in the object under way: it goes with this agent.
  bool IsPassing() const { return HasReleased() && flush != FlushState::kStored; }
  // Whether the node alone can give it back, or the store holds it by now.
  bool IsHeld() const { return ended && is_saved && !doomed && !damaged && !IsPassing() && !IsLost(); }
  // Its bytes here are not those that were captured: what is said of that.
  Status DamagedHere() const;
};

}  // namespace kedge
