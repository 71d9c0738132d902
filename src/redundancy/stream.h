// An image as a stream of bytes: what is encoded, copied to partners, and rebuilt.
//
// The stream is the image's object as a store would have it: its own chunks at their object offsets, gaps as zeros, then
// the image record at the next multiple of 4 KiB. Chunks that lie in other objects (in the store, in another version) are
// not in it. Where extents lie in one block each, as capture cuts them in larger images (capture/chunking.h), its block table
// follows from their checksums, and the bytes are not read again: whoever reads a block for protection holds it against the
// table, that is, against its checksum of capture. The rest is read, and in the same pass every extent is held against its
// checksum, by combining: the parts of an extent, cut where blocks end, must give together the extent's checksum. Either way a
// byte that flipped after capture is found before it is protected as if it were right.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "format/image_record.h"
#include "redundancy/block_table.h"

namespace kedge::redundancy {

enum class StreamPart : uint8_t { kChunk, kGap, kRecord };

struct StreamPiece {
  StreamPart part = StreamPart::kGap;
  uint32_t chunk = 0;        // kChunk: index into ImageRecord::chunks
  uint64_t part_offset = 0;  // within the chunk or the encoded image record
  uint64_t stream_offset = 0;
  uint64_t bytes = 0;  // > 0
  friend bool operator==(const StreamPiece&, const StreamPiece&) = default;
};

class ImageStream {
 public:
  // `record_bytes` is the length of the encoded record. kUnsupported: chunks overlap in the object, or leave gaps that
  // chunks in other objects do not explain.
  static Result<ImageStream> Make(const ImageRecord& image, uint64_t record_bytes);

  uint64_t bytes() const { return bytes_; }
  uint64_t record_offset() const { return record_offset_; }
  // All of it, in order, without a hole between them.
  const std::vector<StreamPiece>& pieces() const { return pieces_; }
  // The pieces that `bytes` from `offset` on lie in, cut to them. Within the stream.
  std::vector<StreamPiece> Range(uint64_t offset, uint64_t bytes) const;

 private:
  std::vector<StreamPiece> pieces_;
  uint64_t bytes_ = 0;
  uint64_t record_offset_ = 0;
};

// Makes the block table of an image's stream and checks its extents, in one pass. `image` must outlive it.
class StreamTableBuilder {
 public:
  StreamTableBuilder(const ImageRecord& image, const ImageStream& stream, uint32_t block_bytes);

  // The next bytes of the stream, gaps (zeros) left to AddGap. kCorrupt: an extent that ends in them does not have its
  // checksum; the message names region and place. Nothing can be added after it.
  Status Add(ByteSpan bytes);
  // Instead of Add, without the bytes: the extents that come next and lie in one block each, within the stream's next
  // `bytes_max`, by their checksums of capture. How many bytes they are; 0: the next ones must be read.
  uint64_t AddKnown(uint64_t bytes_max);
  // How many bytes are best added before AddKnown is asked again. Of no account where only gaps and the record follow.
  uint64_t UnknownBytes() const;
  void AddGap(uint64_t bytes);
  // All of the stream has been added.
  BlockTable Finish() { return table_.Finish(); }

 private:
  struct Running {
    const Extent* extent;
    uint64_t end;  // in the stream
    uint32_t crc32c;
    bool begun;
  };
  // How far the next part goes: to the end of the block, or to where an extent begins or ends.
  uint64_t NextPartBytes() const;
  Status AddPart(uint32_t crc32c, uint64_t bytes);

  const ImageRecord& image_;
  BlockTableBuilder table_;
  std::vector<std::pair<uint64_t, const Extent*>> waiting_;  // by begin in the stream, the next one last
  std::vector<Running> running_;
};

}  // namespace kedge::redundancy
