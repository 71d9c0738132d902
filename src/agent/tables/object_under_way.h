// An object on its way to the store, and where in it the bytes of images lie: the one place that says so.
//
// It is of one image, or of all images that a node writes of a version together (store.layout = node, leaders). Each piece gets
// room behind all that was given out before it. So the sizes of what is to come need not be known, each byte is written once, and
// what is written goes one behind the other. Where an image's pieces lie its block map says: no image needs to be contiguous.
// What was written of an image that fails, or is written again, stays where it is, and nobody refers to it.
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

class ObjectUnderWay {
 public:
  // `name`: as part records name it. Nothing is begun yet.
  ObjectUnderWay(Generation generation, std::string name) : generation_(std::move(generation)), name_(std::move(name)) {}
  // Removes what was begun, unless it was published.
  ~ObjectUnderWay();
  ObjectUnderWay(const ObjectUnderWay&) = delete;
  ObjectUnderWay& operator=(const ObjectUnderWay&) = delete;

  const std::string& name() const { return name_; }
  // Does not block: images may be written there still.
  bool IsUsable() const { return !is_closed_ && !has_failed_; }

  // Begins it, unless that is done. REQUIRES: PrepareGeneration. `expected_bytes` 0: unknown.
  Status Begin(const Catalog& catalog, uint64_t expected_bytes);

  // A place for so many bytes, a multiple of kChunkAlignment. Does not block.
  uint64_t TakeRoom(uint64_t bytes) { return end_.fetch_add(AlignChunkOffset(bytes)); }

  // While a piece is written. Close waits for it.
  using Writing = std::shared_lock<std::shared_mutex>;
  // kFailedPrecondition: it is closed.
  Result<Writing> BeginPiece();
  // REQUIRES: Begin.
  Status WriteAt(uint64_t offset, ByteSpan bytes);
  Status FlushHint(uint64_t offset, uint64_t bytes);
  bool is_buffered() const { return writer_->is_buffered(); }

  // No piece is written to it from now on, whoever had one on its way: what follows are the records of those that are published.
  void Close();
  // REQUIRES: Begin.
  ObjectWriter* writer() { return writer_.get(); }
  // It stands in the store now.
  void MarkPublished() { published_ = true; }

 private:
  Status Remember(const Status& written);

  const Generation generation_;
  const std::string name_;
  std::mutex mutex_;
  std::unique_ptr<ObjectWriter> writer_;  // set once, under mutex_
  Status failure_;                        // the first one, guarded by mutex_
  std::atomic<bool> has_failed_ = false;
  std::shared_mutex pieces_;  // shared: a piece is being written
  std::atomic<bool> is_closed_ = false;
  std::atomic<uint64_t> end_ = 0;  // of all rooms
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
