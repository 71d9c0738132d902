#include "reduce/image_reduction.h"

#include <fmt/format.h>

#include <algorithm>

#include "reduce/fingerprint.h"

namespace kedge::reduce {

namespace {

// Appends the block to the last run, or begins a new one.
void AddToRuns(const BlockPlace& place, uint32_t block_bytes, bool is_after_short, std::vector<BlockRun>* runs) {
  if (!runs->empty()) {
    BlockRun& last = runs->back();
    const bool follows =
        place.object == kZeroBlocks || (!is_after_short && place.offset == last.offset + last.blocks * block_bytes);
    if (last.object == place.object && follows) {
      ++last.blocks;
      return;
    }
  }
  runs->push_back({place.object, 1, place.offset});
}

}  // namespace

ReducedPiece ReducePiece(ByteSpan piece, uint64_t stream_offset, uint32_t block_bytes, const BaseImage* base) {
  ReducedPiece reduced;
  reduced.blocks.reserve((piece.size() + block_bytes - 1) / block_bytes);
  for (size_t at = 0; at < piece.size(); at += block_bytes) {
    const ByteSpan bytes = piece.subspan(at, std::min<size_t>(block_bytes, piece.size() - at));
    ReducedBlock& block = reduced.blocks.emplace_back();
    block.bytes = static_cast<uint32_t>(bytes.size());
    if (IsZeros(bytes)) continue;
    block.fingerprint = FingerprintOf(bytes);
    if (base != nullptr) {
      if (const auto place = base->Find({stream_offset + at, block.bytes}, block.fingerprint)) {
        block.place = *place;
        continue;
      }
    }
    block.place = {kOwnBlocks, reduced.new_bytes};
    reduced.new_bytes += AlignChunkOffset(block.bytes);
  }
  return reduced;
}

uint64_t ImageReduction::TakeRoom(const ReducedPiece& piece) {
  const uint64_t room = end_;
  end_ += piece.new_bytes;
  return room;
}

void ImageReduction::Add(uint64_t stream_offset, ReducedPiece piece, uint64_t room_offset) {
  for (ReducedBlock& block : piece.blocks) {
    if (block.place.object == kOwnBlocks) block.place.offset += room_offset;
  }
  pieces_[stream_offset] = std::move(piece.blocks);
}

Result<BlockMap> ImageReduction::Finish(const ImageRecord& record) const {
  BlockMap map;
  map.identity = record.identity;
  map.block_bytes = block_bytes_;
  const BlockLayout layout(record, block_bytes_);
  std::vector<uint32_t> renamed(base_ == nullptr ? 0 : base_->objects().size(), kZeroBlocks);
  uint64_t number = 0;
  bool is_after_short = false;
  for (const auto& [piece_offset, blocks] : pieces_) {
    uint64_t stream_offset = piece_offset;
    for (const ReducedBlock& block : blocks) {
      const bool is_expected =
          number < layout.blocks() && layout.At(number).stream_offset == stream_offset && layout.At(number).bytes == block.bytes;
      if (!is_expected) {
        return Status(Code::kInternal, fmt::format("{}: {} bytes at {} are not its block {}", record.identity.ToString(),
                                                   block.bytes, stream_offset, number));
      }
      BlockPlace place = block.place;
      if (place.object >= kSharedBlocks) {
        uint32_t& name = renamed[place.object - kSharedBlocks];
        if (name == kZeroBlocks) {
          name = static_cast<uint32_t>(kSharedBlocks + map.objects.size());
          map.objects.push_back(base_->objects()[place.object - kSharedBlocks]);
        }
        place.object = name;
      }
      AddToRuns(place, block_bytes_, is_after_short, &map.runs);
      if (place.object != kZeroBlocks) map.fingerprints.push_back(block.fingerprint);
      is_after_short = block.bytes < block_bytes_;
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
