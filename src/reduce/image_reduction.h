// The reduction of one image on its way to the store: which of its blocks are written, and the block map that follows. An image
// all of whose blocks are written unseen has a map as well, where its object is that of several images.
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
#include "reduce/borrower.h"
#include "reduce/common_blocks.h"
#include "reduce/first_blocks.h"
#include "reduce/stored_block.h"

namespace kedge::reduce {

inline constexpr uint32_t kCommonBlocks = uint32_t{1} << 31;

struct ReducedBlock {
  uint32_t bytes = 0;
  BlockPlace place;  // of a new block: kOwnBlocks, and where it goes from the begin of its room; of a common one: kCommonBlocks
                     // + index into CommonBlocks::objects
  Fingerprint fingerprint{};
  std::optional<ImageBlock> equal_to;  // it lies where that one lies, of the same image or of another rank's

  bool IsNew() const { return place.object == kOwnBlocks && !equal_to; }
};

struct ReducedPiece {
  std::vector<ReducedBlock> blocks;
  uint64_t new_bytes = 0;  // room for its new blocks, one after the other, each rounded up to kChunkAlignment
};

// Where a block may be that need not be written; each may be null.
struct KnownBlocks {
  const BaseImage* base = nullptr;
  CommonBorrower* common = nullptr;                   // what other nodes write
  FirstBlocks* image = nullptr;                       // of the same image
  Borrower* neighbours = nullptr;                     // other ranks' images; only with `image`
  bool may_borrow = true;                             // from these and other nodes; else it only lends to them
  std::shared_ptr<const PieceBytes> piece = nullptr;  // the piece itself, for those that compare bytes with it
};

// The blocks of `piece`, which lies at `stream_offset` of that rank's image. New are those that are not zeros and that are not
// among the known ones.
ReducedPiece ReducePiece(ByteSpan piece, const ImageBlock& begin, uint32_t block_bytes, const KnownBlocks& known);
// The same of a piece that nobody looks into: all of its blocks are new, and none has a fingerprint.
ReducedPiece WholePiece(size_t bytes, uint32_t block_bytes);

// Compresses the new ones of the `blocks`, which lie in `bytes` one after the other, into `out`, where each has its place from
// then on; how much was used. REQUIRES: `out` has room for them and kStoredBlockOverheadBytes for each. kNoSpace: there is no
// memory.
Result<size_t> CompressNew(ByteSpan bytes, const CodecSettings& settings, std::span<ReducedBlock> blocks,
                           std::span<std::byte> out);

class ImageReduction;

// Another image, all of whose pieces are added. Its own object is to stand where whoever borrows from it is published.
struct Lender {
  const ImageReduction* image = nullptr;
  std::string object;         // its key, relative to the job's folder
  uint64_t object_bytes = 0;  // what the blocks of all images take that are written there
};
using Lenders = std::map<uint32_t, Lender>;  // by rank

// Not thread safe.
class ImageReduction {
 public:
  enum class Pieces : uint8_t { kReduced, kWhole };

  // `base` and `common` as for the pieces, all of which come from the one function or the other.
  ImageReduction(uint32_t rank, uint32_t block_bytes, Pieces pieces, std::shared_ptr<const BaseImage> base,
                 std::shared_ptr<const CommonBlocks> common = nullptr)
      : rank_(rank), block_bytes_(block_bytes), pieces_are_(pieces), base_(std::move(base)), common_(std::move(common)) {}

  uint32_t block_bytes() const { return block_bytes_; }
  const BaseImage* base() const { return base_.get(); }

  // The piece is written, and the places of its new blocks are those in the object.
  void Add(uint64_t stream_offset, ReducedPiece piece);
  // What its new blocks take in its object.
  uint64_t OwnBytes() const;

  // The map of all pieces. kInternal: they are not the blocks of the image's own chunks, or a block is no copy of what it should
  // be one of: that one was written again since, with other content. kIncomplete: the same of a block of another image, or that
  // image is not among the lenders.
  Result<BlockMap> Finish(const ImageRecord& record, const Lenders& lenders) const;

 private:
  class ObjectNames;
  // Where a block of this image lies, by the names of the map that is made.
  Result<BlockPlace> PlaceOf(const ReducedBlock& block, uint64_t stream_offset, const Lenders& lenders, ObjectNames* names) const;
  // Null: there is none that begins there.
  const ReducedBlock* Find(uint64_t stream_offset) const;
  // That one, or the one of this image that it is a copy of; null also: it has other content.
  const ReducedBlock* Holding(uint64_t stream_offset, const Fingerprint& fingerprint) const;

  const uint32_t rank_;
  const uint32_t block_bytes_;
  const Pieces pieces_are_;
  const std::shared_ptr<const BaseImage> base_;
  const std::shared_ptr<const CommonBlocks> common_;
  std::map<uint64_t, std::vector<ReducedBlock>> pieces_;  // by stream offset
};

}  // namespace kedge::reduce
