// The block map: where the bytes of an image's chunks lie when its object in the store does not hold them one after the other.
//
// Each chunk of the image's own is cut into blocks from its beginning, the last one short. A block is all zeros, and lies
// nowhere; or it lies in the image's own object; or it is equal to one that lies in another image's object. Where it lies it may
// be compressed (reduce/stored_block.h), and then takes as many bytes there as the map says. The image record
// says of chunks and extents what it says on every level: the map stands between it and the objects, and nobody but who opens
// an object knows of it. It lies behind the image record. An image that was not compared with others has a map all the same where
// its object is that of several images: it says only where the blocks lie.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/identity.h"
#include "format/image_record.h"
#include "format/wire.h"

namespace kedge {

inline constexpr uint32_t kMapBlockBytesMin = 4096;
inline constexpr uint32_t kMapBlockBytesMax = 1 << 20;
// What a compressed block has at most beyond the bytes of the block: two headers (reduce/stored_block.h).
inline constexpr uint32_t kStoredBlockOverheadBytes = 32;

// XXH3, 128 bits, of a block: blocks with equal fingerprints are taken for equal.
using Fingerprint = std::array<std::byte, 16>;

// What BlockRun::object says; greater numbers are 2 + index into BlockMap::objects.
inline constexpr uint32_t kZeroBlocks = 0;
inline constexpr uint32_t kOwnBlocks = 1;
inline constexpr uint32_t kSharedBlocks = 2;

// Another image's object in which blocks lie.
struct SharedObject {
  std::string key;     // relative to the job's folder
  uint64_t bytes = 0;  // of the blocks that it was written for, each rounded up to kChunkAlignment

  friend bool operator==(const SharedObject&, const SharedObject&) = default;
};

// Blocks that follow each other in the image and in an object. Unless they are compressed, only the last may be a short one.
struct BlockRun {
  uint32_t object = kZeroBlocks;
  uint64_t blocks = 0;         // >= 1
  uint64_t offset = 0;         // in the object, of the first; a multiple of kChunkAlignment, unless compressed. Of zeros: 0
  bool is_compressed = false;  // then each lies behind the one before, without a gap

  friend bool operator==(const BlockRun&, const BlockRun&) = default;
};

// Where a block lies: BlockRun::object with its place there.
struct BlockPlace {
  uint32_t object = kZeroBlocks;
  uint64_t offset = 0;
  uint32_t stored_bytes = 0;  // that it takes there, compressed; 0: it lies there as it is

  friend bool operator==(const BlockPlace&, const BlockPlace&) = default;
};

// What a block takes in its object.
inline uint64_t RoomOf(uint32_t block_bytes, const BlockPlace& place) {
  return place.stored_bytes > 0 ? place.stored_bytes : AlignChunkOffset(block_bytes);
}

struct BlockMap {
  ImageIdentity identity;
  uint32_t block_bytes = kMapBlockBytesMin;  // a power of two
  std::vector<SharedObject> objects;
  std::vector<BlockRun> runs;             // all blocks of the image, in order
  std::vector<uint32_t> stored_bytes;     // of those that are compressed, in order
  bool has_fingerprints = true;           // false: its blocks were not looked at
  std::vector<Fingerprint> fingerprints;  // of those that are not zeros, in order

  friend bool operator==(const BlockMap&, const BlockMap&) = default;
};

// Of all blocks, in order. Several may lie in one place.
std::vector<BlockPlace> PlacesOf(const BlockMap& map);

void Encode(const BlockMap& map, Buffer* out);
// What is returned is consistent in itself; whether it is of an image as its record describes it, its blocks must be counted
// for (BlockLayout).
Result<BlockMap> DecodeBlockMap(ByteSpan record);

// Which blocks an image has. Offsets are those of the image's stream: chunks of its own at their object offsets.
class BlockLayout {
 public:
  BlockLayout() = default;
  BlockLayout(const ImageRecord& record, uint32_t block_bytes);

  uint64_t blocks() const { return blocks_; }
  uint32_t block_bytes() const { return block_bytes_; }

  struct Block {
    uint64_t stream_offset = 0;
    uint32_t bytes = 0;
  };
  // REQUIRES: block < blocks().
  Block At(uint64_t block) const;

  // Where a byte of the stream is. In a gap between chunks, `block` is nothing, and `left` is up to the next chunk.
  struct Place {
    std::optional<uint64_t> block;
    uint32_t within = 0;  // the block
    uint64_t left = 0;    // of the chunk, from that byte on
  };
  Place Find(uint64_t stream_offset) const;

 private:
  struct Part {
    uint64_t first_block = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  uint32_t block_bytes_ = kMapBlockBytesMin;
  uint64_t blocks_ = 0;
  std::vector<Part> parts_;  // in order of both
};

}  // namespace kedge
