// Captures an image into slots of local tiers and hands it to the agent through the mailbox.
//
// Chunks below a piece are packed into the open slot; greater ones get a slot each, and the agent is told after every piece
// how far they are, so that it flushes while the capture goes on. The image record, followed by the placement table, comes
// last, and ImageEnd makes the image the agent's: from then on the application may change its memory, or die.
// A chunk for which no tier has room goes to the store as an object of its own.
//
// Where images build on each other (SetBuilds) the last one is the base of the next, as long as the agent keeps it: what the next
// one leaves out the agent fills in (session/gap_table.h). The flush of a chunk with gaps begins when the image has ended.
#pragma once

#include <memory>
#include <vector>

#include "capture/image_sink.h"
#include "capture/slot_allocator.h"
#include "format/node_records.h"
#include "session/gap_table.h"
#include "store/catalog.h"
#include "tier/tier.h"

namespace kedge {

// What a session gives to each image; all of it outlives the sink. Guarded by the context's lock.
struct SlotSinkContext {
  AgentChannel* channel = nullptr;
  SlotAllocator* slots = nullptr;
  std::vector<Tier*> tiers;            // by SlotRange::tier
  std::vector<std::string> tier_keys;  // the same order
  LayoutLimits limits;
  const Catalog* catalog = nullptr;  // for chunks that go through
  Duration wait_timeout{};           // for a slot
};

// Captured bytes by where they went.
struct CapturedBytes {
  uint64_t memory = 0;
  uint64_t directory = 0;
  uint64_t through = 0;
};

class SlotSink final : public ImageSink {
 public:
  explicit SlotSink(SlotSinkContext context) : context_(std::move(context)) {}

  const LayoutLimits& limits() const override { return context_.limits; }
  Status Begin(const ImageIdentity& identity, uint64_t announced_bytes) override;
  Result<ChunkTarget> OpenChunk(uint32_t chunk, uint64_t bytes) override;
  void ExpectChunk(uint64_t bytes) override;
  bool GrowChunk(uint64_t extra_bytes) override;
  Status Write(uint64_t offset, const std::byte* data, uint64_t bytes) override;
  void Progress(uint64_t bytes) override;
  const ImageBase* base() const override { return builds_on_base_ ? &base_ : nullptr; }
  void LeaveOut(uint64_t offset, uint64_t bytes) override;
  void FillLater() override { chunk_is_partial_ = true; }
  Status CloseChunk(uint64_t bytes, ImageRecord* record) override;
  Status End(const ImageRecord& record) override;
  void Abort() override;

  // Of the next image: the levels that are its version's turn, DueLevels of session/mailbox.h.
  void SetDueLevels(uint32_t due_levels) { due_levels_ = due_levels; }
  // Of the next image: whether it may leave out what the one before has, and the one after what it has.
  void SetBuilds(bool builds) { builds_ = builds; }
  // The image that the one under way builds on; 0: none.
  uint64_t base_serial() const { return builds_on_base_ ? base_serial_ : 0; }
  // Images begun in this session so far.
  uint64_t serial() const { return serial_; }
  // The last one of these that was handed to the agent; 0: none was.
  uint64_t ended_serial() const { return ended_serial_; }
  // Of the image since Begin.
  const CapturedBytes& captured() const { return captured_; }
  // The slots got for whole chunks of the image under way: also those whose chunk is to come, and those that the agent has
  // taken back because their chunk was flushed.
  std::vector<HeldSlot> HeldSlots() const;

 private:
  bool IsSmall(uint64_t bytes) const { return bytes < context_.limits.piece_bytes; }
  Deadline WaitDeadline() const { return Deadline(SystemClock(), context_.wait_timeout); }
  Result<Tier*> TierOf(const SlotRange& range) const;
  // What the agent is told of a chunk of the image that comes after `before_bytes` of it.
  FullChunk FullChunkAfter(uint64_t before_bytes, uint64_t bytes) const;
  // Whether the agent keeps the base until this image has ended (session/mailbox.h).
  bool ClaimBase();
  void BecomeBase(const ImageRecord& record);
  // Tells the agent once, ahead of the first progress, which image this is.
  Status Announce();
  Result<SlotRange> StoreInOpenSlot(ByteSpan bytes);
  // Tells the agent that the open chunk, in a slot of its own, is whole, and how long that took.
  void ReportWritten();
  Result<ChunkTarget> OpenThrough(uint32_t chunk, uint64_t bytes);

  const SlotSinkContext context_;
  ImageIdentity identity_;
  uint32_t due_levels_ = 0;
  uint64_t serial_ = 0;
  uint64_t ended_serial_ = 0;
  uint64_t announced_bytes_ = 0;
  uint64_t opened_bytes_ = 0;  // of the chunks so far, the open one too
  bool announced_ = false;
  PlacementTable placement_;
  std::vector<SlotRange> full_slots_;  // got for whole chunks of this image
  uint32_t chunk_ = 0;
  SlotRange place_{};                      // of the open chunk
  Tier* tier_ = nullptr;                   // of the open chunk
  std::unique_ptr<ObjectWriter> through_;  // instead, when it goes through
  int64_t chunk_begin_ns_ = 0;             // when the open chunk, in a slot of its own, got its place; 0: another one
  uint64_t object_offset_ = 0;
  CapturedBytes captured_;
  bool builds_ = false;
  bool builds_on_base_ = false;
  bool chunk_is_partial_ = false;  // the open one has gaps, or is filled after it was closed
  GapTable gaps_;                  // of this image
  ImageBase base_;                 // the last one that ended and others may build on
  uint64_t base_serial_ = 0;
  std::vector<const std::byte*> chunk_memory_;  // of this image
  Buffer buffer_;
};

}  // namespace kedge
