// Copies an image's regions into a sink, with their checksums, and builds the image record.
//
// Every byte is read once: it is copied and checksummed block by block in cache (CRC32C), so that it is
// verified wherever it goes from here. Targets in memory get it directly; others through a bounce buffer of one piece. The record
// and all buffers are kept from one checkpoint to the next, so that a checkpoint like the one before allocates nothing.
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

class ImageCapture {
 public:
  // `sink` must outlive the image. `announced_bytes`: as ImageSink::Begin.
  Status Begin(ImageSink* sink, const ImageIdentity& identity, std::string_view group, uint64_t announced_bytes);
  // The regions that come next, with the sizes that AddRegion or OpenRegion will name, in order: plans their chunks.
  Status BeginPart(std::span<const uint64_t> region_bytes);
  // `data` is read before the call returns; it may be null when the region is empty.
  Status AddRegion(const Region& region, const void* data);
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
  uint64_t bytes_captured_ = 0;
};

}  // namespace kedge
