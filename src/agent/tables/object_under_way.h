// An object on its way to the store, and where in it the bytes of images lie: the one place that says so.
//
// It is of one image, or of all images that a node writes of a version together (store.layout = node, leaders). Each piece gets
// room behind all that was given out before it. So the sizes of what is to come need not be known, each byte is written once, and
// what is written goes one behind the other. Where an image's pieces lie its block map says: no image needs to be contiguous.
// What was written of an image that fails, or is written again, stays where it is, and nobody refers to it.
//
// Or it is of many nodes (store.layout = posix). One of them begins it, and lends the others shares of it: runs, each behind all
// that were given out before, so that a share begins at the sum of the bytes before it. The borrower writes its pieces there, and
// finishes: then it may tell the lender, who publishes the object, where its images lie.
//
// A write that fails makes the whole object worth nothing, and with it all that lies there: each of its images is written again.
//
// Threads: all of it may be used by several workers at once. Every call may block on the store, unless said otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "base/status.h"
#include "format/identity.h"
#include "format/image_record.h"
#include "store/catalog.h"

namespace kedge {

// Of an object that another node has begun, for one node alone.
struct LentShare {
  std::string name;    // of the object
  std::string handle;  // for Store::JoinObject
  uint64_t begin = 0;
  uint64_t bytes = 0;
};
class ShareLender {
 public:
  virtual ~ShareLender() = default;
  // Of at least so many bytes. Blocks until the other node answers, or does not. Any thread but the loop's.
  virtual Result<LentShare> Lend(uint64_t bytes) = 0;
};

class ObjectUnderWay {
 public:
  // `name`: as part records name it. Nothing is begun yet.
  ObjectUnderWay(Generation generation, std::string name) : generation_(std::move(generation)), name_(std::move(name)) {}
  // That of another node, in which this one is to write about so many bytes.
  ObjectUnderWay(Generation generation, std::unique_ptr<ShareLender> lender, uint64_t share_bytes)
      : generation_(std::move(generation)), lender_(std::move(lender)), share_bytes_(share_bytes) {}
  // Removes what was begun, unless it was published, or is another node's.
  ~ObjectUnderWay();
  ObjectUnderWay(const ObjectUnderWay&) = delete;
  ObjectUnderWay& operator=(const ObjectUnderWay&) = delete;

  // REQUIRES: Begin, where it is borrowed.
  const std::string& name() const { return name_; }
  bool is_borrowed() const { return lender_ != nullptr; }
  // Does not block: images may be written there still.
  bool IsUsable() const { return !is_closed_ && !has_failed_; }
  bool has_failed() const { return has_failed_; }
  bool is_closed() const { return is_closed_; }
  // No more is written to it.
  void GiveUp(const Status& why) { (void)Remember(why); }
  uint64_t written_bytes() const { return written_bytes_; }

  // It is to be lent, and this node is to write about so many bytes of it. False: it has been begun for this node alone.
  bool Share(uint64_t own_bytes);
  // Does not block. REQUIRES: Share and Begin.
  Result<LentShare> Lend(uint64_t bytes);

  // Begins it, unless that is done. REQUIRES: PrepareGeneration. `expected_bytes` 0: unknown.
  Status Begin(const Catalog& catalog, uint64_t expected_bytes);

  // A place for so many bytes, a multiple of kChunkAlignment. Blocks where it is borrowed. REQUIRES: Begin.
  Result<uint64_t> TakeRoom(uint64_t bytes);

  // While a piece is written. Close waits for it.
  using Writing = std::shared_lock<std::shared_mutex>;
  // kFailedPrecondition: it is closed.
  Result<Writing> BeginPiece();
  // REQUIRES: Begin.
  Status WriteAt(uint64_t offset, ByteSpan bytes);
  Status FlushHint(uint64_t offset, uint64_t bytes);
  bool is_buffered() const { return writer_ != nullptr ? writer_->is_buffered() : contributor_->is_buffered(); }

  // No piece is written to it from now on, whoever had one on its way: what follows are the records of those that are published.
  void Close();
  // All that this node writes of it is written, records included: another one's share ends at a border, and what was borrowed is
  // durable when this returns ok. Once.
  Status FinishShare();
  // REQUIRES: Begin; it is not borrowed.
  ObjectWriter* writer() { return writer_.get(); }
  // It stands in the store now.
  void MarkPublished() { published_ = true; }

 private:
  // Bytes [begin, end).
  struct Run {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  Status Remember(const Status& written);
  Status Failure();
  Status Create(const Catalog& catalog, uint64_t expected_bytes);
  Status Join(Store& store);
  // A share of at least so many bytes, of all objects but one's own: there everything is.
  Result<Run> TakeShare(uint64_t bytes);
  Run Grant(uint64_t bytes);
  uint64_t NextBorder(uint64_t offset) const;

  const Generation generation_;
  std::string name_;  // where it is borrowed, set by Begin
  const std::unique_ptr<ShareLender> lender_;
  std::mutex begin_mutex_;
  std::unique_ptr<ObjectWriter> writer_;            // set once, by Begin
  std::unique_ptr<ObjectContributor> contributor_;  // the same, where it is borrowed
  std::mutex mutex_;
  Status failure_;  // the first one, guarded by mutex_
  std::atomic<bool> has_failed_ = false;
  std::shared_mutex pieces_;  // shared: a piece is being written
  std::atomic<bool> is_closed_ = false;
  std::mutex room_mutex_;  // held while a lender is waited for
  // Guarded by room_mutex_:
  uint64_t end_ = 0;          // of all rooms, or of all shares
  bool is_created_ = false;   // or is about to be
  bool is_shared_ = false;    // it is to be lent
  bool is_lent_ = false;      // some of it is
  uint64_t share_bytes_ = 0;  // that this node has yet to ask for, as was planned
  Run share_;                 // what is left of this node's last share
  std::atomic<uint64_t> written_bytes_ = 0, written_end_ = 0;
  std::atomic<bool> published_ = false;
};

// The object that the images of a version go to which this node writes together. One thread.
class NodeObjects {
 public:
  // The one that is under way, or a new one.
  std::shared_ptr<ObjectUnderWay> Of(const Generation& generation);

 private:
  std::map<Generation, std::weak_ptr<ObjectUnderWay>> objects_;
};

}  // namespace kedge
