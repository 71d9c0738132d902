#include "reduce/image_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "reduce/fingerprint.h"

namespace kedge::reduce {

namespace {

// Blocks that follow each other in the image and in an object become runs.
class RunCollector {
 public:
  explicit RunCollector(BlockMap* map) : map_(*map) {}

  void Add(const BlockPlace& place, uint32_t bytes) {
    const bool is_compressed = place.stored_bytes > 0;
    const bool follows = !map_.runs.empty() && map_.runs.back().object == place.object &&
                         map_.runs.back().is_compressed == is_compressed && (place.object == kZeroBlocks || place.offset == end_);
    if (follows) {
      ++map_.runs.back().blocks;
    } else {
      map_.runs.push_back({place.object, 1, place.offset, is_compressed});
    }
    if (is_compressed) map_.stored_bytes.push_back(place.stored_bytes);
    // Nothing follows a short one that is not compressed.
    end_ = is_compressed ? place.offset + place.stored_bytes : bytes == map_.block_bytes ? place.offset + bytes : UINT64_MAX;
  }

 private:
  BlockMap& map_;
  uint64_t end_ = 0;  // of the last block
};

}  // namespace

// Of other images' objects: what a block map calls those that its blocks lie in, in the order in which they come.
class ImageReduction::ObjectNames {
 public:
  ObjectNames(const BaseImage* base, std::vector<SharedObject>* objects)
      : base_(base), objects_(*objects), of_base_(base == nullptr ? 0 : base->objects().size(), kZeroBlocks) {}

  uint32_t OfBase(uint32_t index) {
    if (of_base_[index] == kZeroBlocks) of_base_[index] = Add(base_->objects()[index]);
    return of_base_[index];
  }
  uint32_t OfCommon(const SharedObject& object) {
    const auto [name, is_first] = of_common_.try_emplace(object.key, kZeroBlocks);
    if (is_first) name->second = Add(object);
    return name->second;
  }
  // Several lenders may be written to one object.
  uint32_t OfLender(const Lender& lender) {
    const auto [name, is_first] = of_lenders_.try_emplace(lender.object, kZeroBlocks);
    if (is_first) name->second = Add({lender.object, lender.object_bytes});
    return name->second;
  }

 private:
  uint32_t Add(const SharedObject& object) {
    objects_.push_back(object);
    return static_cast<uint32_t>(kSharedBlocks + objects_.size() - 1);
  }

  const BaseImage* const base_;
  std::vector<SharedObject>& objects_;
  std::vector<uint32_t> of_base_;
  std::map<std::string_view, uint32_t> of_lenders_, of_common_;
};

ReducedPiece ReducePiece(ByteSpan piece, const ImageBlock& begin, uint32_t block_bytes, const KnownBlocks& known) {
  ReducedPiece reduced;
  reduced.blocks.reserve((piece.size() + block_bytes - 1) / block_bytes);
  for (size_t at = 0; at < piece.size(); at += block_bytes) {
    const ByteSpan bytes = piece.subspan(at, std::min<size_t>(block_bytes, piece.size() - at));
    ReducedBlock& block = reduced.blocks.emplace_back();
    block.bytes = static_cast<uint32_t>(bytes.size());
    if (IsZeros(bytes)) continue;
    block.fingerprint = FingerprintOf(bytes);
    const ImageBlock self{begin.rank, begin.stream_offset + at};
    if (known.base != nullptr) {
      if (const auto place = known.base->Find({self.stream_offset, block.bytes}, block.fingerprint)) {
        block.place = *place;
        continue;
      }
    }
    if (known.common != nullptr && known.may_borrow) {
      if (const auto place = known.common->Find(block.fingerprint, block.bytes)) {
        block.place = {kCommonBlocks + place->object, place->offset};
        continue;
      }
    }
    if (known.image != nullptr) {
      const ImageBlock first = known.image->FirstOf(block.fingerprint, {bytes, known.piece, at}, self);
      if (first != self) block.equal_to = first;
    }
    if (known.neighbours != nullptr && !block.equal_to) {
      block.equal_to = known.neighbours->Find(block.fingerprint, {bytes, known.piece, at}, self.stream_offset, known.may_borrow);
    }
    block.place = {kOwnBlocks, reduced.new_bytes};
    if (block.IsNew()) reduced.new_bytes += AlignChunkOffset(block.bytes);
  }
  return reduced;
}

ReducedPiece WholePiece(size_t bytes, uint32_t block_bytes) {
  ReducedPiece piece;
  piece.blocks.reserve((bytes + block_bytes - 1) / block_bytes);
  for (size_t at = 0; at < bytes; at += block_bytes) {
    ReducedBlock& block = piece.blocks.emplace_back();
    block.bytes = static_cast<uint32_t>(std::min<size_t>(block_bytes, bytes - at));
    block.place = {kOwnBlocks, piece.new_bytes};
    piece.new_bytes += AlignChunkOffset(block.bytes);
  }
  return piece;
}

Result<size_t> CompressNew(ByteSpan bytes, const CodecSettings& settings, std::span<ReducedBlock> blocks,
                           std::span<std::byte> out) {
  size_t used = 0, at = 0;
  for (ReducedBlock& block : blocks) {
    const ByteSpan content = bytes.subspan(at, block.bytes);
    at += block.bytes;
    if (!block.IsNew()) continue;
    KEDGE_ASSIGN_OR_RETURN(const size_t stored, StoreBlock(content, settings, out.subspan(used)));
    block.place = {kOwnBlocks, used, static_cast<uint32_t>(stored)};
    used += stored;
  }
  return used;
}

void ImageReduction::Add(uint64_t stream_offset, ReducedPiece piece) {
  pieces_[stream_offset] = std::move(piece.blocks);
}

const ReducedBlock* ImageReduction::Find(uint64_t stream_offset) const {
  const auto after = pieces_.upper_bound(stream_offset);
  if (after == pieces_.begin()) return nullptr;
  const auto& [begin, blocks] = *std::prev(after);
  const uint64_t index = (stream_offset - begin) / block_bytes_;
  return index < blocks.size() ? &blocks[index] : nullptr;
}

const ReducedBlock* ImageReduction::Holding(uint64_t stream_offset, const Fingerprint& fingerprint) const {
  const ReducedBlock* block = Find(stream_offset);
  if (block != nullptr && block->equal_to && block->equal_to->rank == rank_) block = Find(block->equal_to->stream_offset);
  return block != nullptr && block->fingerprint == fingerprint ? block : nullptr;
}

uint64_t ImageReduction::OwnBytes() const {
  uint64_t bytes = 0;
  for (const auto& [stream_offset, blocks] : pieces_) {
    for (const ReducedBlock& block : blocks) bytes += block.IsNew() ? RoomOf(block.bytes, block.place) : 0;
  }
  return bytes;
}

Result<BlockPlace> ImageReduction::PlaceOf(const ReducedBlock& block, uint64_t stream_offset, const Lenders& lenders,
                                           ObjectNames* names) const {
  const ReducedBlock* lies = &block;
  const auto is_copy = [this](const ReducedBlock& one) { return one.equal_to && one.equal_to->rank == rank_; };
  if (is_copy(block)) lies = Holding(block.equal_to->stream_offset, block.fingerprint);
  const bool is_still = lies == &block || (lies != nullptr && (lies->IsNew() || (lies->equal_to && !is_copy(*lies))));
  if (!is_still) {
    return Status(Code::kInternal, fmt::format("{} bytes at {} are no copy of those at {} any more", block.bytes, stream_offset,
                                               block.equal_to->stream_offset));
  }
  BlockPlace place = lies->place;
  if (lies->equal_to) {
    const auto lender = lenders.find(lies->equal_to->rank);
    const ReducedBlock* const lent =
        lender == lenders.end() ? nullptr : lender->second.image->Holding(lies->equal_to->stream_offset, block.fingerprint);
    if (lent == nullptr || !lent->IsNew()) {
      return Status(Code::kIncomplete, fmt::format("{} bytes at {} do not lie in what rank {} has written", block.bytes,
                                                   stream_offset, lies->equal_to->rank));
    }
    place = lent->place;
    place.object = names->OfLender(lender->second);
  } else if (place.object >= kCommonBlocks) {
    place.object = names->OfCommon(common_->objects()[place.object - kCommonBlocks]);
  } else if (place.object >= kSharedBlocks) {
    place.object = names->OfBase(place.object - kSharedBlocks);
  }
  return place;
}

Result<BlockMap> ImageReduction::Finish(const ImageRecord& record, const Lenders& lenders) const {
  BlockMap map;
  map.identity = record.identity;
  map.block_bytes = block_bytes_;
  map.has_fingerprints = pieces_are_ == Pieces::kReduced;
  const BlockLayout layout(record, block_bytes_);
  ObjectNames names(base_.get(), &map.objects);
  uint64_t number = 0;
  RunCollector runs(&map);
  for (const auto& [piece_offset, blocks] : pieces_) {
    uint64_t stream_offset = piece_offset;
    for (const ReducedBlock& block : blocks) {
      const bool is_expected =
          number < layout.blocks() && layout.At(number).stream_offset == stream_offset && layout.At(number).bytes == block.bytes;
      if (!is_expected) {
        return Status(Code::kInternal, fmt::format("{}: {} bytes at {} are not its block {}", record.identity.ToString(),
                                                   block.bytes, stream_offset, number));
      }
      const Result<BlockPlace> place = PlaceOf(block, stream_offset, lenders, &names);
      if (!place.ok()) return place.status().WithContext(record.identity.ToString());
      runs.Add(*place, block.bytes);
      if (map.has_fingerprints && place->object != kZeroBlocks) map.fingerprints.push_back(block.fingerprint);
      stream_offset += block.bytes;
      ++number;
    }
  }
  if (number != layout.blocks()) {
    return Status(Code::kInternal,
                  fmt::format("{}: {} of its {} blocks are known", record.identity.ToString(), number, layout.blocks()));
  }
  return map;
}

}  // namespace kedge::reduce
