// The reduction of one image on its way to the store: which of its blocks are written, and the block map that follows.
//
// Pieces of chunks come in any order, each cut into blocks from its beginning: they begin where blocks begin, and end there or
// with their chunk. The caller reads and writes; here it learns what is worth writing, and where.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "format/block_map.h"
#include "reduce/base_image.h"
#include "reduce/first_blocks.h"
#include "reduce/stored_block.h"

namespace kedge::reduce {

struct ReducedBlock {
  uint32_t bytes = 0;
  BlockPlace place;  // of a new block: kOwnBlocks, and where it goes from the begin of its room
  Fingerprint fingerprint{};
  std::optional<uint64_t> copy_of;  // it lies where the image's block lies that begins there in its stream

  bool IsNew() const { return place.object == kOwnBlocks && !copy_of; }
};

struct ReducedPiece {
  std::vector<ReducedBlock> blocks;
  uint64_t new_bytes = 0;  // room for its new blocks, one after the other, each rounded up to kChunkAlignment
};

// The blocks of `piece`, which lies at `stream_offset`. New are those that are not zeros, that `base` does not have, and that are
// the first of their content among `firsts`; either may be null.
ReducedPiece ReducePiece(ByteSpan piece, uint64_t stream_offset, uint32_t block_bytes, const BaseImage* base,
                         FirstBlocks* firsts);

// Compresses the new ones of the `blocks`, which lie in `bytes` one after the other, into `out`, where each has its place from
// then on; how much was used. REQUIRES: `out` has room for them and kStoredBlockOverheadBytes for each. kNoSpace: there is no
// memory.
Result<size_t> CompressNew(ByteSpan bytes, const CodecSettings& settings, std::span<ReducedBlock> blocks,
                           std::span<std::byte> out);

// Not thread safe.
class ImageReduction {
 public:
  // `base` as for the pieces.
  ImageReduction(uint32_t block_bytes, std::shared_ptr<const BaseImage> base)
      : block_bytes_(block_bytes), base_(std::move(base)) {}

  uint32_t block_bytes() const { return block_bytes_; }
  const BaseImage* base() const { return base_.get(); }

  // A place in the object for so many bytes that are new, behind all that was given out before. A multiple of kChunkAlignment.
  uint64_t TakeRoom(uint64_t bytes);
  // The piece is written, and the places of its new blocks are those in the object.
  void Add(uint64_t stream_offset, ReducedPiece piece);
  // The end of all rooms.
  uint64_t end() const { return end_; }

  // The map of all pieces. kInternal: they are not the blocks of the image's own chunks, or a block is no copy of what it should
  // be one of: that one was written again since, with other content.
  Result<BlockMap> Finish(const ImageRecord& record) const;

 private:
  // Null: there is none that begins there.
  const ReducedBlock* Find(uint64_t stream_offset) const;

  const uint32_t block_bytes_;
  const std::shared_ptr<const BaseImage> base_;
  uint64_t end_ = 0;
  std::map<uint64_t, std::vector<ReducedBlock>> pieces_;  // by stream offset
};

}  // namespace kedge::reduce
