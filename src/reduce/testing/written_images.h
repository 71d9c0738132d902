// For the tests of this folder: images as they are captured, written to objects that lie in memory, and read again through their
// block maps, as a restart would.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "reduce/base_image.h"
#include "reduce/borrower.h"
#include "reduce/common_blocks.h"
#include "reduce/image_reduction.h"
#include "reduce/stored_block.h"

namespace kedge::reduce {

inline constexpr uint32_t kBlock = kMapBlockBytesMin;
inline constexpr uint32_t kRanks = 20;  // at most

// A chunk for each of `contents`, one after the other.
struct Captured {
  ImageRecord record;
  std::vector<Buffer> contents;
};

inline Captured Capture(int64_t version, std::vector<Buffer> contents, uint32_t rank = 0) {
  Captured captured;
  captured.record.identity = {{{}, "job", "grid", version, 1, 1}, rank, kRanks};
  uint64_t end = 0;
  for (const Buffer& content : contents) {
    captured.record.chunks.push_back({0, end, content.size()});
    end = AlignChunkOffset(end + content.size());
  }
  captured.contents = std::move(contents);
  return captured;
}

// What an image's object holds, by key: as the store would have it.
using Objects = std::map<std::string, Buffer>;

struct Stored {
  Captured captured;
  std::string key;
  BlockMap map;
};

// An image on its way to its object, beside those of other ranks with the same `node` (null: there are none). Several may have
// the same `object`.
class Writing {
 public:
  Writing(Captured captured, std::string key, std::shared_ptr<const BaseImage> base, std::shared_ptr<FirstBlocks> node,
          std::shared_ptr<Buffer> object = std::make_shared<Buffer>(), std::shared_ptr<const CommonBlocks> common = nullptr)
      : captured_(std::move(captured)),
        key_(std::move(key)),
        base_(std::move(base)),
        reduction_(captured_.record.identity.rank, kBlock, ImageReduction::Pieces::kReduced, base_, common),
        object_(std::move(object)) {
    if (node != nullptr) borrower_.emplace(std::move(node), captured_.record.identity.rank);
    if (common != nullptr) common_borrower_.emplace(std::move(common));
  }

  struct Options {
    size_t piece_bytes = 4 * kBlock;
    bool compress = false;     // some pieces
    bool deduplicate = false;  // within the image; always with a node
    bool may_borrow = true;
    std::shared_ptr<const PieceBytes> bytes = nullptr;
  };
  // All pieces, in a random order.
  void WritePieces(const Options& options, Random& random) {
    std::vector<std::pair<size_t, size_t>> pieces;  // chunk and offset
    for (size_t chunk = 0; chunk < captured_.contents.size(); ++chunk) {
      for (size_t at = 0; at < captured_.contents[chunk].size(); at += options.piece_bytes) pieces.emplace_back(chunk, at);
    }
    for (size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random.Below(i)]);
    for (const auto& [chunk, at] : pieces) WritePiece(chunk, at, options, random.Chance(0.5));
  }

  // `object_bytes`: what there is in its object, of other images too.
  Lender AsLender(uint64_t object_bytes) const { return {&reduction_, key_, object_bytes}; }
  uint64_t own_bytes() const { return reduction_.OwnBytes(); }
  uint32_t rank() const { return captured_.record.identity.rank; }
  const Captured& captured() const { return captured_; }
  const std::string& key() const { return key_; }
  std::set<std::string> CommonObjects() const { return common_borrower_->ObjectsInUse(); }
  const Buffer& object() const { return *object_; }
  Result<BlockMap> Finish(const Lenders& lenders) const { return reduction_.Finish(captured_.record, lenders); }

 private:
  void WritePiece(size_t chunk, size_t at, const Options& options, bool compress) {
    const ByteSpan content = captured_.contents[chunk];
    const ByteSpan piece = content.subspan(at, std::min(options.piece_bytes, content.size() - at));
    const uint64_t stream_offset = captured_.record.chunks[chunk].object_offset + at;
    KnownBlocks known{.base = base_.get(), .may_borrow = options.may_borrow, .piece = options.bytes};
    if (options.deduplicate || borrower_) known.image = &firsts_;
    if (borrower_) known.neighbours = &*borrower_;
    if (common_borrower_) known.common = &*common_borrower_;
    ReducedPiece reduced = ReducePiece(piece, {rank(), stream_offset}, kBlock, known);
    Buffer compressed(piece.size() + reduced.blocks.size() * kStoredBlockOverheadBytes);
    const bool is_compressed = options.compress && compress;
    if (is_compressed) {
      compressed.resize(CompressNew(piece, {}, reduced.blocks, compressed).value());
      reduced.new_bytes = compressed.size();
    }
    const uint64_t room = object_->size();
    object_->resize(room + AlignChunkOffset(reduced.new_bytes));
    size_t from = 0;
    for (ReducedBlock& block : reduced.blocks) {
      if (block.IsNew()) {
        const std::byte* const lies = is_compressed ? &compressed[block.place.offset] : piece.data() + from;
        block.place.offset += room;
        std::memcpy(&(*object_)[block.place.offset], lies, is_compressed ? block.place.stored_bytes : block.bytes);
      }
      from += block.bytes;
    }
    reduction_.Add(stream_offset, std::move(reduced));
  }

  const Captured captured_;
  const std::string key_;
  const std::shared_ptr<const BaseImage> base_;
  FirstBlocks firsts_;
  std::optional<Borrower> borrower_;
  std::optional<CommonBorrower> common_borrower_;
  ImageReduction reduction_;
  const std::shared_ptr<Buffer> object_;
};

inline std::shared_ptr<const BaseImage> BaseOf(const Stored& stored, const LiveBytes* live = nullptr) {
  return std::make_shared<BaseImage>(BaseImage::Make(stored.captured.record, stored.map, stored.key, {}, live).value());
}

inline Stored Publish(const Writing& writing, const Lenders& lenders, Objects* objects) {
  Stored stored{writing.captured(), writing.key(), writing.Finish(lenders).value()};
  (*objects)[stored.key] = writing.object();
  Buffer encoded;
  Encode(stored.map, &encoded);
  EXPECT_EQ(DecodeBlockMap(encoded).value(), stored.map);
  return stored;
}

// In pieces of `piece_bytes`, in a random order.
inline Stored Write(const Captured& captured, const Stored* before, size_t piece_bytes, Random& random, Objects* objects,
                    bool compress = false, bool deduplicate = false) {
  Writing writing(captured, fmt::format("v{}", captured.record.identity.generation.version),
                  before == nullptr ? nullptr : BaseOf(*before), nullptr);
  writing.WritePieces({.piece_bytes = piece_bytes, .compress = compress, .deduplicate = deduplicate}, random);
  return Publish(writing, {}, objects);
}

// Block by block, as whoever restores it would.
inline void ExpectReadable(const Stored& stored, const Objects& objects) {
  const BlockLayout layout(stored.captured.record, kBlock);
  uint64_t block = 0;
  auto stored_bytes = stored.map.stored_bytes.begin();
  for (const BlockRun& run : stored.map.runs) {
    uint64_t offset = run.offset;
    for (uint64_t i = 0; i < run.blocks; ++i, ++block) {
      const BlockLayout::Block place = layout.At(block);
      Buffer expected(place.bytes);
      for (size_t chunk = 0; chunk < stored.captured.contents.size(); ++chunk) {
        const Chunk& of = stored.captured.record.chunks[chunk];
        if (place.stream_offset < of.object_offset || place.stream_offset >= of.object_offset + of.bytes) continue;
        std::memcpy(expected.data(), &stored.captured.contents[chunk][place.stream_offset - of.object_offset], place.bytes);
      }
      Buffer found(place.bytes);
      if (run.object != kZeroBlocks) {
        const std::string& key = run.object == kOwnBlocks ? stored.key : stored.map.objects[run.object - kSharedBlocks].key;
        const uint64_t bytes = run.is_compressed ? *stored_bytes++ : place.bytes;
        ASSERT_TRUE(objects.contains(key)) << key;
        ASSERT_LE(offset + bytes, objects.at(key).size());
        const ByteSpan lies = ByteSpan(objects.at(key)).subspan(offset, bytes);
        if (run.is_compressed) {
          ASSERT_TRUE(LoadBlock(lies, found).ok());
        } else {
          std::copy(lies.begin(), lies.end(), found.begin());
        }
        offset += run.is_compressed ? bytes : kBlock;
      }
      ASSERT_TRUE(found == expected) << "block " << block;
    }
  }
  ASSERT_EQ(block, layout.blocks());
}

inline Buffer RandomBytes(Random& random, size_t bytes) {
  Buffer buffer(bytes);
  random.Fill(buffer.data(), bytes);
  return buffer;
}

}  // namespace kedge::reduce
