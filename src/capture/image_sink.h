// Where the chunks of one image go while it is captured: slots of local tiers handed out by the agent (slot_sink.h), or
// straight into the store when there is no agent (store_sink.h).
//
// Calls come from one thread, in this order: Begin, then for each chunk OpenChunk, any mix of Write, Progress, GrowChunk and
// ExpectChunk, CloseChunk; then End. Abort instead of any later call gives everything up. After an error only Abort may follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "capture/chunking.h"
#include "format/image_record.h"

namespace kedge {

// An image that was captured before, as far as the next one can be compared with it, and leave out what it has.
struct ImageBase {
  ImageRecord record;
  std::vector<const std::byte*> chunks;  // of the record's chunk table, mapped; nullptr: not in memory
};

// Index of the memory region of that id and size in the base's record; its number of regions: there is none.
size_t BaseRegion(const ImageBase& base, const Region& region);

struct ChunkTarget {
  // Where the chunk's bytes go, mapped and writable; nullptr when they go through Write.
  std::byte* memory = nullptr;
};

class ImageSink {
 public:
  virtual ~ImageSink() = default;

  virtual const LayoutLimits& limits() const = 0;
  // `announced_bytes`: the sum of the regions, 0 when it is not known.
  virtual Status Begin(const ImageIdentity& identity, uint64_t announced_bytes) = 0;
  // Chunk number `chunk` (counted from 0) will hold `bytes`, at most limits().chunk_bytes. May wait for a place.
  virtual Result<ChunkTarget> OpenChunk(uint32_t chunk, uint64_t bytes) = 0;
  // The chunk after the open one will hold `bytes`: its place can be asked for while this one is filled.
  virtual void ExpectChunk(uint64_t bytes) = 0;
  // Whether the open chunk may become `extra_bytes` longer, in place.
  virtual bool GrowChunk(uint64_t extra_bytes) = 0;
  // For targets without memory. `offset` is a multiple of limits().piece_bytes; `data` is aligned to kChunkAlignment.
  virtual Status Write(uint64_t offset, const std::byte* data, uint64_t bytes) = 0;
  // The first `bytes` of the open chunk are there and will not change.
  virtual void Progress(uint64_t bytes) = 0;
  // The image before this one, of which bytes may be left out (LeaveOut); nullptr: none. From Begin on, until the image ends.
  virtual const ImageBase* base() const { return nullptr; }
  // So many bytes of the open chunk are not there, since the base's chunk of the same number has them at the same place. They
  // come in order. REQUIRES: the target has memory, and base().
  virtual void LeaveOut(uint64_t /*offset*/, uint64_t /*bytes*/) {}
  // Bytes of the open chunk come there after it was closed, and before End. REQUIRES: the target has memory.
  virtual void FillLater() {}
  // The open chunk is whole: appends it to record->chunks, and to record->objects where it lies in an object of its own.
  virtual Status CloseChunk(uint64_t bytes, ImageRecord* record) = 0;
  // The image is whole; on return it is captured. The record is complete and stays the caller's.
  virtual Status End(const ImageRecord& record) = 0;
  virtual void Abort() = 0;
};

}  // namespace kedge
