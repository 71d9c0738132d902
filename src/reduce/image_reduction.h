// The reduction of one image on its way to the store: which of its blocks are written, and the block map that follows.
//
// Pieces of chunks come in any order, each cut into blocks from its beginning: they begin where blocks begin, and end there or
// with their chunk. The caller reads and writes; here it learns what is worth writing, and where.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "format/block_map.h"
#include "reduce/base_image.h"

namespace kedge::reduce {

struct ReducedBlock {
  uint32_t bytes = 0;
  BlockPlace place;  // of a new block: kOwnBlocks, and where it goes from the begin of its piece's room
  Fingerprint fingerprint{};
};

struct ReducedPiece {
  std::vector<ReducedBlock> blocks;
  uint64_t new_bytes = 0;  // room for its new blocks, one after the other, each rounded up to kChunkAlignment
};

// The blocks of `piece`, which lies at `stream_offset`. `base` may be null: then every block that is not zeros is new.
ReducedPiece ReducePiece(ByteSpan piece, uint64_t stream_offset, uint32_t block_bytes, const BaseImage* base);

// Not thread safe.
class ImageReduction {
 public:
  // `base` as for the pieces.
  ImageReduction(uint32_t block_bytes, std::shared_ptr<const BaseImage> base)
      : block_bytes_(block_bytes), base_(std::move(base)) {}

  uint32_t block_bytes() const { return block_bytes_; }
  const BaseImage* base() const { return base_.get(); }

  // A place in the object for what is new in the piece, behind all that was given out before.
  uint64_t TakeRoom(const ReducedPiece& piece);
  // The piece is written at that place, or has nothing new.
  void Add(uint64_t stream_offset, ReducedPiece piece, uint64_t room_offset);
  // The end of all rooms.
  uint64_t end() const { return end_; }

  // The map of all pieces. kInternal: they are not the blocks of the image's own chunks.
  Result<BlockMap> Finish(const ImageRecord& record) const;

 private:
  const uint32_t block_bytes_;
  const std::shared_ptr<const BaseImage> base_;
  uint64_t end_ = 0;
  std::map<uint64_t, std::vector<ReducedBlock>> pieces_;  // by stream offset
};

}  // namespace kedge::reduce
