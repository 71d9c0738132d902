// Blocks of an image: every byte of every chunk of its own is in exactly one, and each is found again.
#include "format/block_map.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/random.h"
#include "format/testing/sample_records.h"

namespace kedge {
namespace {

ImageRecord RandomImage(Random& random) {
  ImageRecord image;
  uint64_t end = 0;
  for (uint64_t chunks = random.Below(6); chunks > 0; --chunks) {
    end = AlignChunkOffset(end + random.Below(3) * kChunkAlignment);
    const bool is_own = random.Below(4) > 0;
    image.chunks.push_back({is_own ? 0U : 1U, is_own ? end : 0, 1 + random.Below(100'000)});
    if (is_own) end += image.chunks.back().bytes;
  }
  return image;
}

TEST(BlockLayout, HasEachByteOfTheImagesOwnChunksOnce) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const ImageRecord image = RandomImage(random);
    const uint32_t block_bytes = kMapBlockBytesMin << random.Below(4);
    const BlockLayout layout(image, block_bytes);
    uint64_t block = 0;
    for (const Chunk& chunk : image.chunks) {
      if (chunk.object != 0) continue;
      for (uint64_t at = 0; at < chunk.bytes; at += block_bytes, ++block) {
        ASSERT_LT(block, layout.blocks());
        const BlockLayout::Block found = layout.At(block);
        EXPECT_EQ(found.stream_offset, chunk.object_offset + at);
        EXPECT_EQ(found.bytes, std::min<uint64_t>(block_bytes, chunk.bytes - at));
        const auto within = static_cast<uint32_t>(random.Below(found.bytes));
        const BlockLayout::Place place = layout.Find(found.stream_offset + within);
        EXPECT_EQ(place.block, block);
        EXPECT_EQ(place.within, within);
        EXPECT_EQ(place.left, chunk.bytes - at - within);
      }
    }
    EXPECT_EQ(block, layout.blocks());
  }
}

TEST(BlockLayout, TellsGapsBetweenChunks) {
  ImageRecord image;
  image.chunks = {{0, 4096, 10}, {0, 12288, 10}};
  const BlockLayout layout(image, 4096);
  const auto expect_gap = [&](uint64_t offset, uint64_t left) {
    EXPECT_FALSE(layout.Find(offset).block.has_value()) << offset;
    EXPECT_EQ(layout.Find(offset).left, left) << offset;
  };
  expect_gap(0, 4096);
  expect_gap(4106, 12288 - 4106);
  expect_gap(12298, UINT64_MAX);
  EXPECT_EQ(layout.Find(12297).block, 1U);
}

TEST(BlockMaps, ThatPromiseWhatCannotBeAreRefused) {
  const auto refused = [](const std::function<void(BlockMap&)>& breakage) {
    BlockMap map = testing::SampleBlockMap();
    breakage(map);
    Buffer bytes;
    Encode(map, &bytes);
    return DecodeBlockMap(bytes).status().code() == Code::kCorrupt;
  };
  EXPECT_FALSE(refused([](BlockMap&) {}));
  EXPECT_TRUE(refused([](BlockMap& map) { map.block_bytes = 2048; }));
  EXPECT_TRUE(refused([](BlockMap& map) { map.block_bytes = 2 * kMapBlockBytesMax; }));
  EXPECT_TRUE(refused([](BlockMap& map) { map.runs[0].object = 3; })) << "there is one object";
  EXPECT_TRUE(refused([](BlockMap& map) { map.runs[0].offset = 1; }));
  EXPECT_TRUE(refused([](BlockMap& map) { map.runs[1].offset = 4096; })) << "zeros lie nowhere";
  EXPECT_TRUE(refused([](BlockMap& map) { map.runs[1].blocks = 0; }));
  EXPECT_TRUE(refused([](BlockMap& map) { map.runs[1].blocks = uint64_t{1} << 41; }));
  EXPECT_TRUE(refused([](BlockMap& map) { map.fingerprints.pop_back(); }));
  EXPECT_TRUE(refused([](BlockMap& map) { map.objects[0].key.clear(); }));
}

TEST(BlockMaps, MaySayNothingButWhereBlocksLie) {
  const BlockMap map = testing::SampleBlockMapOfPlaces();
  const auto decoded = [](const BlockMap& of) {
    Buffer bytes;
    Encode(of, &bytes);
    return DecodeBlockMap(bytes);
  };
  EXPECT_EQ(decoded(map).value(), map);
  BlockMap with_some = map;
  with_some.fingerprints.resize(11);
  EXPECT_EQ(decoded(with_some).status().code(), Code::kCorrupt);
  BlockMap compressed = map;
  compressed.runs[0].is_compressed = true;
  compressed.stored_bytes.assign(8, 100);
  EXPECT_EQ(decoded(compressed).value(), compressed);
}

TEST(BlockMaps, SayWhatCompressedBlocksTake) {
  BlockMap map = testing::SampleBlockMap();
  map.runs[0].is_compressed = true;
  map.runs[0].offset = 4097;
  map.stored_bytes = {1, map.block_bytes + kStoredBlockOverheadBytes};
  const auto decoded = [](const BlockMap& of) {
    Buffer bytes;
    Encode(of, &bytes);
    return DecodeBlockMap(bytes);
  };
  EXPECT_EQ(decoded(map).value(), map);
  const auto refused = [&](const std::function<void(BlockMap&)>& breakage) {
    BlockMap broken = map;
    breakage(broken);
    return decoded(broken).status().code() == Code::kCorrupt;
  };
  EXPECT_TRUE(refused([](BlockMap& broken) { broken.stored_bytes[0] = 0; }));
  EXPECT_TRUE(refused([](BlockMap& broken) { ++broken.stored_bytes[1]; })) << "more than any block takes";
  EXPECT_TRUE(refused([](BlockMap& broken) { broken.stored_bytes.pop_back(); }));
  EXPECT_TRUE(refused([](BlockMap& broken) { broken.stored_bytes.push_back(1); }));
  EXPECT_TRUE(refused([](BlockMap& broken) { broken.runs[1].is_compressed = true; })) << "zeros lie nowhere";
  EXPECT_TRUE(refused([](BlockMap& broken) { broken.runs[0].is_compressed = false; })) << "none is";
}

}  // namespace
}  // namespace kedge
