// What workers touch of a flush: a store, and one image on its way to its object there.
//
// Threads: all of it may be used by several workers at once. Every call may block on the store.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "agent/tables/object_under_way.h"
#include "base/status.h"
#include "format/identity.h"
#include "format/store_records.h"
#include "reduce/base_image.h"
#include "reduce/borrower.h"
#include "reduce/common_blocks.h"
#include "reduce/first_blocks.h"
#include "reduce/image_reduction.h"
#include "reduce/viability.h"
#include "session/messages.h"
#include "store/attempts.h"
#include "store/catalog.h"
#include "store/publish.h"
#include "store/retention.h"
#include "tier/tier.h"

namespace kedge {

// A job's store, checked at each use to be the one that the job means.
class StoreContext {
 public:
  StoreContext(std::unique_ptr<Store> store, const StoreId& id, std::string node)
      : store_(std::move(store)), catalog_(Catalog::Assume(*store_, id, {node, 0, "agent"})) {}

  // In the name of this node's agent and `attempt`. kUnavailable: it is not there now; kMismatch: another one is.
  Result<Catalog> CatalogFor(uint32_t attempt);
  // The same before anything of the attempt is begun in the store: a sign of life is there (store/attempts.h), so that gc leaves
  // alone what is. Given once; AttemptWatch goes on.
  Result<Catalog> CatalogToWrite(const std::string& job, uint32_t attempt);
  // Its attempt began without the store (store/catalog.h).
  void Await(const AttemptRecord& record) { catalog_.Await(record); }
  // What an attempt went on from is not noted in the store yet, as far as is known here.
  void AwaitRestored(const RestoredRecord& record) { catalog_.AwaitRestored(record); }
  // The record that is awaited of an attempt; nothing: none is.
  std::optional<AttemptRecord> AwaitedRecordOf(uint32_t attempt) const { return catalog_.AwaitedRecordOf(attempt); }
  // What an image of the generation may share with the version before it; null: nothing. Claims the base for all images of the
  // generation once (store/sharing/base_version.h). An error on the way is logged: the image is written whole. `with_neighbours`:
  // what images that were published together use of each other's objects counts.
  std::shared_ptr<const reduce::BaseImage> BaseFor(const Catalog& catalog, const Generation& generation, uint32_t rank,
                                                   uint32_t block_bytes, bool with_neighbours);
  // store/attempts.h, store/retention.h; one that works for attempt `self` asks.
  bool IsSilent(const std::string& job, uint32_t self, uint32_t attempt);
  Status ApplyRetention(const std::string& job, const std::string& name, uint32_t self, RetentionOptions options,
                        RetentionReport* report);
  Store& store() { return *store_; }
  uint32_t places() const { return catalog_.places(); }

 private:
  Result<std::optional<Generation>> Claim(const Catalog& catalog, const Generation& generation);
  // Of all images of that part.
  std::shared_ptr<const reduce::LiveBytes> LiveBytesOf(const Catalog& catalog, const PartRecord& part);

  const std::unique_ptr<Store> store_;
  const Catalog catalog_;
  std::mutex marked_mutex_;
  std::set<uint32_t> marked_;  // attempts
  struct Claimed {
    uint32_t places = 0;  // of the store, when it was claimed
    std::optional<Generation> base;
  };
  std::mutex claims_mutex_;
  std::map<Generation, Claimed> claims_;  // of the generations flushed last
  std::mutex live_mutex_;
  std::map<std::pair<Generation, uint32_t>, std::shared_ptr<const reduce::LiveBytes>> live_;  // of parts, by their first ranks
  std::mutex watch_mutex_;
  LeaseWatch watch_;  // of attempts that have left something
};

// Where the bytes of a piece are. Keeps the tier's object alive.
struct PieceSource {
  std::shared_ptr<Tier> tier;  // null: a file
  uint32_t slot = 0;
  std::string file;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  // Into `out`, by system calls: a file that was cut short is an error, never a signal.
  Status Read(std::byte* out) const;
};

// Of a piece that is in the store.
struct PieceWritten {
  uint32_t crc32c =
      0;  // of what was there to be written: what has changed in the source before a byte was taken from there is in it
  uint64_t bytes = 0;  // that were written: the others are zeros, equal to what is there, or saved by compression
  Duration writing{};  // what the store's part of it took
};

// How an image is reduced on its way.
struct Reduction {
  uint32_t block_bytes = 0;  // 0: it has no block map. Pieces begin at multiples of it in their chunks
  bool is_whole = false;     // all blocks are written as they are, and the map says where: the rest does not matter then
  bool shares = false;       // with the version before
  Deduplication deduplicate = Deduplication::kOff;
  std::shared_ptr<reduce::FirstBlocks> node_blocks;    // of the images that may lend it blocks, and it them; null: none
  std::shared_ptr<const reduce::CommonBlocks> common;  // what nodes write for each other; null: nothing
  bool compares = false;                               // bytes, before blocks are taken for equal
  Feature compress = Feature::kOff;
  // kAuto: what the store is known to take of one flush (0: nothing is), and what compressing took of late.
  double store_bytes_per_second = 0;
  reduce::Viability viability{};
};

// What came of it.
struct Reduced {
  Reduction as;               // as it was told, with what is known by now of compressing
  uint64_t bytes = 0;         // of its pieces
  uint64_t saved_bytes = 0;   // of these, blocks that were not written
  uint64_t shrunk_bytes = 0;  // that compression saved of the others
  bool had_base = false;
};

// One image on its way to an object, which the first piece that is written begins. Whoever lets go of the object last removes
// what was begun, unless it was published; so pieces that are still being written hold it.
class FlushObject {
 public:
  // Without a block map, the image lies in its object as it was captured, and no other does. Else only blocks that are not zeros
  // and that neither the version before nor the image itself has already, nor other images, as far as `reduction` says so,
  // compressed where that pays; and the block map behind the image record. `expected_bytes`: of the object.
  FlushObject(std::shared_ptr<StoreContext> store, Generation generation, uint32_t rank, std::shared_ptr<ObjectUnderWay> object,
              uint64_t expected_bytes, const Reduction& reduction)
      : store_(std::move(store)),
        generation_(std::move(generation)),
        rank_(rank),
        object_(std::move(object)),
        expected_bytes_(expected_bytes),
        block_bytes_(reduction.block_bytes),
        reduced_{.as = reduction} {
    if (reduction.node_blocks != nullptr) borrower_.emplace(reduction.node_blocks, rank);
    if (reduction.common != nullptr) common_borrower_.emplace(reduction.common);
  }

  FlushObject(const FlushObject&) = delete;
  FlushObject& operator=(const FlushObject&) = delete;

  // A piece of a chunk, or all of it; `stream_offset`: where the image record says that it lies. `may_borrow`: its blocks may be
  // those of other images, which takes that it can be written again. Also tells the store to begin carrying the piece to the
  // device.
  Result<PieceWritten> WritePiece(const PieceSource& source, uint64_t stream_offset, bool may_borrow);
  // The same of bytes that lie in memory only.
  Result<PieceWritten> WriteBytes(ByteSpan bytes, uint64_t stream_offset) { return Write(bytes, {}, stream_offset, false); }
  // What images that have blocks in its object need to know of it. Nothing: they have none. REQUIRES: all pieces are written.
  std::optional<reduce::Lender> AsLender();
  // Behind all pieces, `record` and what belongs to it; `entry` is told where, `references` what the image refers to, as
  // PartRecord has it, and `leans_on` in which of the lenders' objects it has blocks. kIncomplete: in others, which are not
  // there.
  Status WriteRecords(ByteSpan record, const reduce::Lenders& lenders, ImageEntry* entry, std::set<std::string>* references,
                      LeansOn* leans_on);
  // It lies in an object of another node's (object_under_way.h).
  bool is_borrowed() const { return object_->is_borrowed(); }
  // Begins the object when no piece has.
  Result<ObjectUnderWay*> Object();
  // The objects of several nodes' blocks (CommonBlocks) in which blocks of it lie, that it is published after.
  std::set<std::string> CommonObjects() const;
  // Nothing: it was not to be reduced.
  std::optional<Reduced> reduced();

 private:
  Status Begin();
  Result<PieceWritten> Write(ByteSpan bytes, const PieceSource& source, uint64_t stream_offset, bool may_borrow);
  Result<PieceWritten> WriteReduced(ByteSpan bytes, const PieceSource& source, uint64_t stream_offset, bool may_borrow);
  reduce::ReducedPiece Reduce(ByteSpan bytes, const PieceSource& source, uint64_t stream_offset, bool may_borrow);
  Status WriteNew(ByteSpan bytes, reduce::ReducedPiece* piece, PieceWritten* written);
  Status WriteCompressed(ByteSpan bytes, const reduce::CodecSettings& settings, reduce::ReducedPiece* piece,
                         PieceWritten* written);
  // Nothing: its new blocks are to be written as they are.
  Result<std::optional<reduce::CodecSettings>> SettingsFor(ByteSpan bytes, const reduce::ReducedPiece& piece);

  const std::shared_ptr<StoreContext> store_;
  const Generation generation_;
  const uint32_t rank_;
  const std::shared_ptr<ObjectUnderWay> object_;
  const uint64_t expected_bytes_;
  const uint32_t block_bytes_;
  std::mutex mutex_;
  bool begun_ = false;
  std::optional<reduce::ImageReduction> reduction_;  // begun with the object
  reduce::FirstBlocks firsts_;
  std::optional<reduce::Borrower> borrower_;
  std::optional<reduce::CommonBorrower> common_borrower_;
  Reduced reduced_;
  Status failed_;
};

}  // namespace kedge
