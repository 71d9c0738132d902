// Whatever a program changes between two versions, what is read through the block map is what was captured.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/random.h"
#include "reduce/base_image.h"
#include "reduce/fingerprint.h"
#include "reduce/image_reduction.h"
#include "reduce/stored_block.h"

namespace kedge::reduce {
namespace {

constexpr uint32_t kBlock = kMapBlockBytesMin;

// A chunk for each of `contents`, one after the other.
struct Captured {
  ImageRecord record;
  std::vector<Buffer> contents;
};

Captured Capture(int64_t version, std::vector<Buffer> contents) {
  Captured captured;
  captured.record.identity = {{{}, "job", "grid", version, 1, 1}, 0, 1};
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

// In pieces of `piece_bytes`, in a random order.
Stored Write(const Captured& captured, const Stored* before, size_t piece_bytes, Random& random, Objects* objects,
             bool compress = false, bool deduplicate = false) {
  Stored stored{captured, fmt::format("v{}", captured.record.identity.generation.version), {}};
  std::shared_ptr<const BaseImage> base;
  if (before != nullptr) {
    base = std::make_shared<BaseImage>(BaseImage::Make(before->captured.record, before->map, before->key, {}).value());
  }
  ImageReduction reduction(kBlock, base);
  FirstBlocks firsts;
  std::vector<std::pair<size_t, size_t>> pieces;  // chunk and offset
  for (size_t chunk = 0; chunk < captured.contents.size(); ++chunk) {
    for (size_t at = 0; at < captured.contents[chunk].size(); at += piece_bytes) pieces.emplace_back(chunk, at);
  }
  for (size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random.Below(i)]);
  Buffer& object = (*objects)[stored.key];
  for (const auto& [chunk, at] : pieces) {
    const ByteSpan content = captured.contents[chunk];
    const ByteSpan piece = content.subspan(at, std::min(piece_bytes, content.size() - at));
    const uint64_t stream_offset = captured.record.chunks[chunk].object_offset + at;
    ReducedPiece reduced = ReducePiece(piece, stream_offset, kBlock, base.get(), deduplicate ? &firsts : nullptr);
    Buffer compressed(piece.size() + reduced.blocks.size() * kStoredBlockOverheadBytes);
    const bool is_compressed = compress && random.Chance(0.5);
    if (is_compressed) {
      compressed.resize(CompressNew(piece, {}, reduced.blocks, compressed).value());
      reduced.new_bytes = compressed.size();
    }
    const uint64_t room = reduction.TakeRoom(reduced.new_bytes);
    object.resize(reduction.end());
    size_t from = 0;
    for (ReducedBlock& block : reduced.blocks) {
      if (block.IsNew()) {
        const std::byte* const lies = is_compressed ? &compressed[block.place.offset] : piece.data() + from;
        block.place.offset += room;
        std::memcpy(&object[block.place.offset], lies, is_compressed ? block.place.stored_bytes : block.bytes);
      }
      from += block.bytes;
    }
    reduction.Add(stream_offset, std::move(reduced));
  }
  stored.map = reduction.Finish(captured.record).value();
  Buffer encoded;
  Encode(stored.map, &encoded);
  EXPECT_EQ(DecodeBlockMap(encoded).value(), stored.map);
  return stored;
}

// Block by block, as whoever restores it would.
void ExpectReadable(const Stored& stored, const Objects& objects) {
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

Buffer RandomBytes(Random& random, size_t bytes) {
  Buffer buffer(bytes);
  random.Fill(buffer.data(), bytes);
  return buffer;
}

void Mutate(Random& random, std::vector<Buffer>* contents) {
  for (Buffer& content : *contents) {
    const uint64_t blocks = content.size() / kBlock + 1;
    for (uint64_t changes = random.Below(blocks / 2 + 1); changes > 0; --changes) {
      const size_t at = random.Below(content.size());
      const size_t bytes = std::min<size_t>(1 + random.Below(2 * kBlock), content.size() - at);
      switch (random.Below(4)) {
        case 0: std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(at), bytes, std::byte{0}); break;
        case 1: std::memmove(&content[at], &content[random.Below(content.size() - bytes + 1)], bytes); break;
        default: random.Fill(&content[at], bytes);
      }
    }
  }
  // One region grows or shrinks: what follows lies elsewhere.
  if (random.Below(3) == 0) {
    Buffer& content = (*contents)[random.Below(contents->size())];
    const size_t bytes = 1 + random.Below(6 * kBlock);
    if (bytes > content.size()) random.Fill((content.resize(bytes), content.data()), bytes);
    content.resize(bytes);
  }
}

TEST(Reduction, VersionsAreReadAsTheyWereCaptured) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::vector<Buffer> contents;
    for (uint64_t chunks = 1 + random.Below(4); chunks > 0; --chunks) {
      contents.push_back(RandomBytes(random, 1 + random.Below(40 * kBlock)));
    }
    const size_t piece_bytes = kBlock << random.Below(4);
    const bool compress = seed % 2 == 1, deduplicate = seed % 3 == 1;
    Objects objects;
    std::vector<Stored> versions;
    for (int64_t version = 0; version < 25; ++version) {
      SCOPED_TRACE(fmt::format("version {}", version));
      const Stored* const base = version == 0 ? nullptr : &versions.back();
      versions.push_back(Write(Capture(version, contents), base, piece_bytes, random, &objects, compress, deduplicate));
      ExpectReadable(versions.back(), objects);
      if (::testing::Test::HasFatalFailure()) return;
      const BlockMap& map = versions.back().map;
      EXPECT_LE(map.objects.size(), SharingLimits().objects_max);
      // What is kept for this version's sake is not much more than it has.
      uint64_t room = 0, kept = 0;
      for (const Buffer& content : contents) room += AlignChunkOffset(content.size());
      for (const SharedObject& object : map.objects) {
        // Between pieces that are compressed there are gaps.
        EXPECT_LE(object.bytes, objects.at(object.key).size());
        if (!compress) {
          EXPECT_EQ(object.bytes, objects.at(object.key).size());
        }
        kept += object.bytes;
      }
      if (version > 0) {
        uint64_t before = 0;
        for (const Buffer& content : versions[versions.size() - 2].captured.contents) before += AlignChunkOffset(content.size());
        EXPECT_LE(kept, 2 * before);
      }
      if (compress) room += room / kBlock * kStoredBlockOverheadBytes + (room / piece_bytes + contents.size()) * kChunkAlignment;
      EXPECT_LE(objects.at(versions.back().key).size(), room);
      Mutate(random, &contents);
    }
  }
}

TEST(Reduction, AnEqualImageAndZerosCostNothing) {
  Random random(1);
  Objects objects;
  std::vector<Buffer> contents = {RandomBytes(random, 10 * kBlock + 7), Buffer(5 * kBlock)};
  const Stored first = Write(Capture(1, contents), nullptr, 4 * kBlock, random, &objects);
  EXPECT_EQ(objects.at("v1").size(), 11 * kBlock) << "the zeros lie nowhere";
  const Stored second = Write(Capture(2, contents), &first, 4 * kBlock, random, &objects);
  EXPECT_TRUE(objects.at("v2").empty());
  // And of the third the second knows where the first's lie: no chain is followed.
  const Stored third = Write(Capture(3, contents), &second, 4 * kBlock, random, &objects);
  ASSERT_EQ(third.map.objects.size(), 1u);
  EXPECT_EQ(third.map.objects.front(), (SharedObject{"v1", 11 * kBlock}));
  ExpectReadable(third, objects);
}

TEST(Reduction, BlocksThatHaveMovedAreFound) {
  Random random(2);
  Objects objects;
  const Buffer moved = RandomBytes(random, 8 * kBlock);
  const Stored first = Write(Capture(1, {RandomBytes(random, kBlock), moved}), nullptr, 8 * kBlock, random, &objects);
  const Stored second = Write(Capture(2, {RandomBytes(random, 3 * kBlock), moved}), &first, 8 * kBlock, random, &objects);
  EXPECT_EQ(objects.at("v2").size(), 3 * kBlock);
  ExpectReadable(second, objects);
}

// A version with one block changed each time: in the end all objects of the chain hold something.
TEST(Reduction, RefersToFewObjectsHoweverLongTheChain) {
  Random random(3);
  Objects objects;
  std::vector<Buffer> contents = {RandomBytes(random, 100 * kBlock)};
  Stored before = Write(Capture(0, contents), nullptr, 16 * kBlock, random, &objects);
  std::set<size_t> numbers;
  uint64_t written = 0;
  for (int64_t version = 1; version <= 60; ++version) {
    random.Fill(&contents[0][static_cast<size_t>(version) * kBlock], kBlock);
    before = Write(Capture(version, contents), &before, 16 * kBlock, random, &objects);
    ExpectReadable(before, objects);
    numbers.insert(before.map.objects.size());
    written += objects.at(before.key).size();
  }
  EXPECT_EQ(*numbers.rbegin(), SharingLimits().objects_max);
  EXPECT_LT(written, 60 * 12 * uint64_t{kBlock}) << "an eighth of what full images would have taken";
}

// Half of an object's blocks are gone: the rest is written anew, so that it need not be kept.
TEST(Reduction, AnObjectThatIsMostlyUnusedIsLeft) {
  Random random(4);
  Objects objects;
  std::vector<Buffer> contents = {RandomBytes(random, 10 * kBlock)};
  const Stored first = Write(Capture(1, contents), nullptr, 16 * kBlock, random, &objects);
  random.Fill(contents[0].data(), 6 * kBlock);
  const Stored second = Write(Capture(2, contents), &first, 16 * kBlock, random, &objects);
  EXPECT_EQ(objects.at("v2").size(), 6 * kBlock) << "the first is shared with once more";
  const Stored third = Write(Capture(3, contents), &second, 16 * kBlock, random, &objects);
  ASSERT_EQ(third.map.objects.size(), 1u);
  EXPECT_EQ(third.map.objects.front().key, "v2");
  EXPECT_EQ(objects.at("v3").size(), 4 * kBlock);
  ExpectReadable(third, objects);
}

TEST(Reduction, EqualBlocksOfAnImageLieInOnePlace) {
  Random random(7);
  const Buffer a = RandomBytes(random, kBlock), b = RandomBytes(random, kBlock), end = RandomBytes(random, 10);
  std::vector<Buffer> contents(2);
  for (const Buffer* block : {&a, &b, &a, &a, &b, &end}) contents[0].insert(contents[0].end(), block->begin(), block->end());
  for (const Buffer* block : {&b, &a, &end}) contents[1].insert(contents[1].end(), block->begin(), block->end());
  Objects objects;
  const Stored first =
      Write(Capture(1, contents), nullptr, 2 * kBlock, random, &objects, /*compress=*/false, /*deduplicate=*/true);
  EXPECT_EQ(objects.at("v1").size(), 3 * kBlock);
  ExpectReadable(first, objects);
  // Of the next version they are in the object before, which has each of them once.
  contents[0].resize(3 * kBlock);
  const Stored second =
      Write(Capture(2, contents), &first, 2 * kBlock, random, &objects, /*compress=*/false, /*deduplicate=*/true);
  EXPECT_TRUE(objects.at("v2").empty());
  ASSERT_EQ(second.map.objects.size(), 1u);
  EXPECT_EQ(second.map.objects.front(), (SharedObject{"v1", 3 * kBlock}));
  ExpectReadable(second, objects);
}

// A piece whose write has failed is written again, perhaps with another content: what was a copy of it is none any more.
TEST(Reduction, ACopyOfWhatHasChangedIsRefused) {
  Random random(8);
  Buffer content = RandomBytes(random, kBlock);
  content.insert(content.end(), content.begin(), content.end());
  const Captured captured = Capture(1, {content});
  ImageReduction reduction(kBlock, nullptr);
  FirstBlocks firsts;
  const auto add = [&](uint64_t at) {
    reduction.Add(at, ReducePiece(ByteSpan(content).subspan(at, kBlock), at, kBlock, nullptr, &firsts));
  };
  add(kBlock);
  add(0);
  EXPECT_TRUE(reduction.Finish(captured.record).ok());
  add(kBlock);
  EXPECT_TRUE(reduction.Finish(captured.record).ok()) << "the first one again, as it was";
  content[kBlock] ^= std::byte{1};
  add(kBlock);
  EXPECT_EQ(reduction.Finish(captured.record).status().code(), Code::kInternal);
}

TEST(Reduction, OfOtherBlocksThanTheImagesIsRefused) {
  Random random(5);
  const Captured captured = Capture(1, {RandomBytes(random, 3 * kBlock)});
  ImageReduction reduction(kBlock, nullptr);
  const ByteSpan content = captured.contents[0];
  const auto add = [&](uint64_t at, uint64_t bytes) {
    ReducedPiece piece = ReducePiece(content.subspan(at, bytes), at, kBlock, nullptr, nullptr);
    reduction.Add(at, std::move(piece));
  };
  add(0, kBlock);
  EXPECT_EQ(reduction.Finish(captured.record).status().code(), Code::kInternal) << "two are missing";
  add(kBlock, 2 * kBlock);
  EXPECT_TRUE(reduction.Finish(captured.record).ok());
  add(2 * kBlock, kBlock);
  EXPECT_EQ(reduction.Finish(captured.record).status().code(), Code::kInternal) << "one twice";
}

TEST(BaseImage, TakesNoMapOfAnotherImage) {
  Random random(6);
  Objects objects;
  const Stored stored = Write(Capture(1, {RandomBytes(random, 3 * kBlock)}), nullptr, 4 * kBlock, random, &objects);
  ImageRecord larger = stored.captured.record;
  larger.chunks[0].bytes += kBlock;
  EXPECT_EQ(BaseImage::Make(larger, stored.map, "v1", {}).status().code(), Code::kCorrupt);
  ImageRecord other = stored.captured.record;
  other.identity.generation.version = 2;
  EXPECT_EQ(BaseImage::Make(other, stored.map, "v1", {}).status().code(), Code::kCorrupt);
}

TEST(Fingerprint, TellsBlocksApart) {
  Random random(7);
  Buffer block = RandomBytes(random, 3 * kBlock);
  const Fingerprint whole = FingerprintOf(block);
  for (size_t at = 0; at < block.size(); at += 1 + random.Below(97)) {
    block[at] ^= std::byte{1};
    ASSERT_NE(FingerprintOf(block), whole) << at;
    block[at] ^= std::byte{1};
  }
  EXPECT_EQ(FingerprintOf(block), whole);
  EXPECT_NE(FingerprintOf(ByteSpan(block).first(block.size() - 1)), whole);
}

// What lies in stores was written by processors of any kind.
TEST(Fingerprint, IsTheSameOnEveryProcessor) {
  Random random(8);
  for (size_t bytes = 0; bytes < 3 * kBlock; bytes += 1 + random.Below(200)) {
    const Buffer block = RandomBytes(random, bytes);
    const XXH128_hash_t hash = XXH3_128bits(block.data(), block.size());
    ASSERT_EQ(std::memcmp(FingerprintOf(block).data(), &hash, sizeof(hash)), 0) << bytes;
  }
}

TEST(Fingerprint, ZerosAreToldFromAllElse) {
  Buffer block(kBlock + 3);
  EXPECT_TRUE(IsZeros({}));
  EXPECT_TRUE(IsZeros(ByteSpan(block).first(1)));
  EXPECT_TRUE(IsZeros(block));
  for (const size_t at : {size_t{0}, size_t{1}, block.size() / 2, block.size() - 1}) {
    block[at] = std::byte{1};
    EXPECT_FALSE(IsZeros(block)) << at;
    block[at] = std::byte{0};
  }
  std::fill(block.begin(), block.end(), std::byte{1});
  EXPECT_FALSE(IsZeros(block)) << "all equal, and not zero";
}

}  // namespace
}  // namespace kedge::reduce
