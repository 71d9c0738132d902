// Copies an image's regions into a sink, with their checksums, and builds the image record.
//
// Every byte is read once: it is copied and checksummed block by block in cache (CRC32C), so that it is
// verified wherever it goes from here. Targets in memory get it directly; others through a bounce buffer of one piece. The record
// and all buffers are kept from one checkpoint to the next, so that a checkpoint like the one before allocates nothing.
//
// What is known not to have changed since the sink's base is neither read nor copied: the sink is told of a gap, and the checksum
// of an extent with gaps follows from the base's and from the changed bytes, old and new.
//
// One thread at a time. After an error call Abort; the object is then ready for another Begin.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "capture/image_sink.h"
#include "format/image_record.h"

namespace kedge {

// Bytes of a region that may have changed.
struct ChangedRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;  // > 0

  friend bool operator==(const ChangedRange&, const ChangedRange&) = default;
};

// Memory that is copied to its place in an image after the layout was made.
struct CopiedLater {
  uint32_t extent = 0;  // of the image's record
  int region = 0;       // id
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;  // once it has been copied
};

class ImageCapture {
 public:
  // `sink` must outlive the image. `announced_bytes`: as ImageSink::Begin.
  Status Begin(ImageSink* sink, const ImageIdentity& identity, std::string_view group, uint64_t announced_bytes);
  // The regions that come next, with the sizes that AddRegion or OpenRegion will name, in order: plans their chunks.
  Status BeginPart(std::span<const uint64_t> region_bytes);
  // `data` is read before the call returns; it may be null when the region is empty.
  Status AddRegion(const Region& region, const void* data);
  // The same, where all but `changed` (ascending, not overlapping) is as the sink's base has it in the region of that id. What
  // lies elsewhere there, or is not in memory, is copied whole.
  Status AddChangedRegion(const Region& region, const void* data, std::span<const ChangedRange> changed);
  // The same, with a place for the bytes alone: appends what is to be copied there, and summed (SetChecksums), before End.
  // kUnsupported: the sink has no memory for it.
  Status AddRegionLater(const Region& region, const void* data, std::vector<CopiedLater>* later);
  void SetChecksums(std::span<const CopiedLater> copied);
  // The same for bytes that come in portions: exactly region.bytes of them between OpenRegion and CloseRegion.
  Status OpenRegion(const Region& region);
  Status Append(const void* data, uint64_t bytes);
  Status CloseRegion();
  // A second value for a key replaces the first.
  void Annotate(std::string_view key, std::string_view value);
  Status End(int64_t wall_time_ns);
  void Abort();

  bool active() const { return sink_ != nullptr; }
  // Of the image since Begin.
  uint64_t bytes_captured() const { return bytes_captured_; }
  // Of these, left out.
  uint64_t bytes_left_out() const { return bytes_left_out_; }
  const ImageRecord& record() const { return record_; }

 private:
  struct AlignedDelete {
    void operator()(std::byte* memory) const;
  };

  Status NextChunk();
  Status CloseChunk();
  void Expect();
  // Passes on what the bounce buffer holds, and tells the sink how far the chunk is.
  Status FinishPiece();
  // How many bytes may come until an extent must end.
  uint64_t BytesToCut() const;
  // `of_bytes` are copied together.
  uint32_t CopyIntoChunk(const std::byte* data, uint64_t bytes, uint32_t crc, uint64_t of_bytes);
  // So many bytes of an extent have their place in the chunk, and come there later.
  Status LeaveForLater(const std::byte* data, uint64_t bytes);
  // The base's extent at the place of the one that begins with the next byte and has so many; nullptr: there is none in memory.
  const Extent* BaseExtent(uint64_t bytes);
  // So many bytes of the open chunk are the base's.
  void LeaveOut(uint64_t chunk_offset, uint64_t bytes);
  // Of an extent, what has changed of it; its checksum.
  uint32_t CopyChanged(const std::byte* data, uint64_t bytes, const Extent& before);
  Region* NextRegion();

  ImageSink* sink_ = nullptr;
  LayoutLimits limits_;
  uint64_t cut_bytes_ = 0;  // ExtentCutBytes of the image
  ImageRecord record_;
  size_t regions_ = 0;  // entries of record_.regions in use: the others keep their memory for the next image
  size_t annotations_ = 0;

  std::vector<uint64_t> planned_;  // chunks of the part, those before next_planned_ opened already
  size_t next_planned_ = 0;
  bool chunk_open_ = false;
  bool expects_ = false;  // the sink does not know yet that another chunk follows
  ChunkTarget target_;
  uint64_t chunk_bytes_ = 0;  // planned bytes of the open chunk
  uint64_t chunk_used_ = 0;
  uint64_t object_offset_ = 0;  // of the open chunk, or the next, if it lies in the image's own object
  uint64_t piece_start_ = 0;    // the sink knows of the bytes before
  std::unique_ptr<std::byte[], AlignedDelete> bounce_;
  uint64_t bounce_bytes_ = 0;

  bool region_open_ = false;
  bool extent_open_ = false;
  uint64_t region_left_ = 0;
  // Of a region of which parts may be left out:
  std::span<const ChangedRange> changed_;  // those behind what is captured
  size_t base_extent_ = 0;                 // of base()->record.extents, the next that may fit
  bool compares_ = false;
  std::vector<CopiedLater>* later_ = nullptr;  // of a region that is copied later
  uint64_t bytes_captured_ = 0;
  uint64_t bytes_left_out_ = 0;
};

}  // namespace kedge
