#include "reduce/stored_block.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/crc32c.h"
#include "base/random.h"
#include "format/block_map.h"
#include "reduce/codec_trial.h"

namespace kedge::reduce {
namespace {

// A smooth field of numbers, whose last bits are noise.
template <typename Number>
Buffer FieldOf(size_t numbers, uint64_t seed = 1) {
  Random random(seed);
  Buffer bytes(numbers * sizeof(Number));
  for (size_t i = 0; i < numbers; ++i) {
    const auto number = static_cast<Number>(1000 + 100 * std::sin(1e-3 * static_cast<double>(i)) + 1e-6 * random.Unit());
    std::memcpy(&bytes[i * sizeof(Number)], &number, sizeof(Number));
  }
  return bytes;
}

Buffer RandomBlock(size_t bytes) {
  Random random(2);
  Buffer block(bytes);
  random.Fill(block.data(), bytes);
  return block;
}

Buffer StoredOf(ByteSpan block, const CodecSettings& settings = {}) {
  Buffer out(block.size() + kStoredBlockOverheadBytes);
  out.resize(StoreBlock(block, settings, out).value());
  return out;
}

Code CodeOfLoad(ByteSpan stored, size_t block_bytes) {
  Buffer block(block_bytes);
  return LoadBlock(stored, block).code();
}

// With the checksum that belongs to what it has become.
Buffer Resealed(Buffer stored) {
  const uint32_t checksum = crc32c::Compute(&stored[4], stored.size() - 4);
  std::memcpy(stored.data(), &checksum, sizeof(checksum));
  return stored;
}

TEST(StoredBlock, EveryBlockComesBackAsItWas) {
  Random random(3);
  for (const size_t bytes : {size_t{1}, size_t{7}, size_t{127}, size_t{4096}, size_t{65'536}, size_t{65'535}, size_t{1} << 20}) {
    Buffer mixed = FieldOf<double>(bytes / 8 + 1);
    mixed.resize(bytes);
    random.Fill(mixed.data(), bytes / 3);
    for (const Buffer& block : {mixed, RandomBlock(bytes), Buffer(bytes)}) {
      for (const Compressor compressor : {Compressor::kLz4, Compressor::kZstd}) {
        for (const Filter filter : {Filter::kNone, Filter::kShuffle, Filter::kBitShuffle}) {
          for (const uint8_t element_bytes : {1, 2, 3, 8, 16, 255}) {
            const Buffer stored = StoredOf(block, {compressor, filter, element_bytes});
            ASSERT_LE(stored.size(), bytes + kStoredBlockOverheadBytes);
            Buffer found(bytes);
            ASSERT_TRUE(LoadBlock(stored, found).ok());
            ASSERT_EQ(found, block) << bytes;
          }
        }
      }
    }
  }
}

TEST(StoredBlock, AnyFlippedBitIsFound) {
  // One that has shrunk, and one that has not.
  for (const Buffer& block : {FieldOf<float>(4096), RandomBlock(2048)}) {
    Buffer stored = StoredOf(block, {.element_bytes = 4});
    ASSERT_EQ(CodeOfLoad(stored, block.size()), Code::kOk);
    for (size_t at = 0; at < stored.size(); ++at) {
      const std::byte was = stored[at];
      stored[at] ^= std::byte{1} << (at % 8);
      ASSERT_EQ(CodeOfLoad(stored, block.size()), Code::kCorrupt) << at;
      stored[at] = was;
    }
  }
}

// With a checksum that is right nothing but the checks behind it are between a writer of nonsense and the memory of a reader.
TEST(StoredBlock, WhatIsNonsenseWithARightChecksumIsFoundToo) {
  const Buffer block = FieldOf<double>(1024);
  for (const Compressor compressor : {Compressor::kLz4, Compressor::kZstd}) {
    const Buffer stored = StoredOf(block, {.compressor = compressor});
    for (size_t at = 4; at < stored.size(); ++at) {
      for (const int value : {0x01, 0x80, 0xff}) {
        Buffer changed = stored;
        changed[at] ^= static_cast<std::byte>(value);
        Buffer found(block.size());
        // A bit that means nothing may be set: then the block is still what it was.
        if (LoadBlock(Resealed(std::move(changed)), found).ok()) {
          ASSERT_EQ(found, block) << at;
        }
      }
    }
  }
}

TEST(StoredBlock, OfOtherSizesIsRefused) {
  const Buffer block = FieldOf<double>(512);
  const Buffer stored = StoredOf(block);
  EXPECT_EQ(CodeOfLoad(stored, block.size() - 1), Code::kCorrupt);
  EXPECT_EQ(CodeOfLoad(stored, block.size() + 1), Code::kCorrupt);
  for (size_t bytes = 0; bytes < stored.size(); ++bytes) {
    ASSERT_EQ(CodeOfLoad(ByteSpan(stored).first(bytes), block.size()), Code::kCorrupt);
    if (bytes > 16) {
      ASSERT_EQ(CodeOfLoad(Resealed(Buffer(stored.begin(), stored.begin() + static_cast<std::ptrdiff_t>(bytes))), block.size()),
                Code::kCorrupt);
    }
  }
  Buffer longer = stored;
  longer.emplace_back();
  EXPECT_EQ(CodeOfLoad(longer, block.size()), Code::kCorrupt);
  EXPECT_EQ(CodeOfLoad(Resealed(std::move(longer)), block.size()), Code::kCorrupt);
}

// docs/format.md shows these bytes of the header.
TEST(StoredBlock, LiesAsItIsDescribed) {
  const Buffer block(4096, std::byte{7});
  const Buffer stored = StoredOf(block, {.element_bytes = 4});
  uint32_t header[4];
  std::memcpy(header, stored.data(), sizeof(header));
  EXPECT_EQ(header[0], crc32c::Compute(&stored[4], stored.size() - 4));
  EXPECT_EQ(header[1], crc32c::Compute(block.data(), block.size()));
  EXPECT_EQ(header[2], block.size());
  EXPECT_EQ(header[3], stored.size());
  EXPECT_EQ(stored[16], std::byte{2}) << "the format of c-blosc's buffers";
  EXPECT_EQ(stored[19], std::byte{4}) << "the bytes of an element";
}

TEST(CodecTrial, FindsTheElementsByTheirBytes) {
  const auto way_of = [](const Buffer& bytes) {
    return TryCodecs({ByteSpan(bytes).subspan(0, 65'536), ByteSpan(bytes).subspan(131'072)}).value();
  };
  const CodecTrial doubles = way_of(FieldOf<double>(65'536)), floats = way_of(FieldOf<float>(65'536)),
                   shorts = way_of(FieldOf<int16_t>(131'072));
  EXPECT_EQ(doubles.settings.element_bytes, 8);
  EXPECT_EQ(floats.settings.element_bytes, 4);
  EXPECT_NE(shorts.settings.filter, Filter::kNone);
  for (const CodecTrial& trial : {doubles, floats, shorts}) {
    EXPECT_GT(trial.saved_fraction, 0.1);
    EXPECT_LT(trial.saved_fraction, 1);
  }
  const CodecTrial noise = way_of(RandomBlock(262'144));
  EXPECT_EQ(noise.saved_fraction, 0);
  EXPECT_GT(noise.tried_bytes, 0u);
}

TEST(CodecTrial, OfNothingSavesNothing) {
  for (const std::vector<ByteSpan>& samples : {std::vector<ByteSpan>{}, std::vector<ByteSpan>{{}}}) {
    const CodecTrial trial = TryCodecs(samples).value();
    EXPECT_EQ(trial.saved_fraction, 0);
    EXPECT_EQ(trial.tried_bytes, 0u);
  }
}

}  // namespace
}  // namespace kedge::reduce
