#include "reduce/image_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

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

ReducedPiece ReducePiece(ByteSpan piece, uint64_t stream_offset, uint32_t block_bytes, const BaseImage* base,
                         FirstBlocks* firsts) {
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
    if (firsts != nullptr) {
      const uint64_t first = firsts->FirstOf(block.fingerprint, {stream_offset + at, block.bytes});
      if (first != stream_offset + at) block.copy_of = first;
    }
    block.place = {kOwnBlocks, reduced.new_bytes};
    if (block.IsNew()) reduced.new_bytes += AlignChunkOffset(block.bytes);
  }
  return reduced;
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

uint64_t ImageReduction::TakeRoom(uint64_t bytes) {
  const uint64_t room = end_;
  end_ += AlignChunkOffset(bytes);
  return room;
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

Result<BlockMap> ImageReduction::Finish(const ImageRecord& record) const {
  BlockMap map;
  map.identity = record.identity;
  map.block_bytes = block_bytes_;
  const BlockLayout layout(record, block_bytes_);
  std::vector<uint32_t> renamed(base_ == nullptr ? 0 : base_->objects().size(), kZeroBlocks);
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
      const ReducedBlock* const lies = block.copy_of ? Find(*block.copy_of) : &block;
      if (lies == nullptr || !(lies == &block || (lies->IsNew() && lies->fingerprint == block.fingerprint))) {
        return Status(Code::kInternal, fmt::format("{}: {} bytes at {} are no copy of those at {} any more",
                                                   record.identity.ToString(), block.bytes, stream_offset, *block.copy_of));
      }
      BlockPlace place = lies->place;
      if (place.object >= kSharedBlocks) {
        uint32_t& name = renamed[place.object - kSharedBlocks];
        if (name == kZeroBlocks) {
          name = static_cast<uint32_t>(kSharedBlocks + map.objects.size());
          map.objects.push_back(base_->objects()[place.object - kSharedBlocks]);
        }
        place.object = name;
      }
      runs.Add(place, block.bytes);
      if (place.object != kZeroBlocks) map.fingerprints.push_back(block.fingerprint);
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
