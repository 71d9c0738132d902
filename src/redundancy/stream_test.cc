#include "redundancy/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/random.h"

namespace kedge::redundancy {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRecordBytes = 777;

// Three chunks of the object, one of another object between them, extents that begin and end anywhere.
struct Sample {
  ImageRecord image;
  Buffer stream;
};

void AddExtents(Random& random, uint32_t chunk, Sample* sample) {
  const Chunk& place = sample->image.chunks[chunk];
  for (uint64_t at = random.Below(3); at < place.bytes;) {
    const uint64_t bytes = std::min(1 + random.Below(random.Chance(0.2) ? 9000 : 100), place.bytes - at);
    const uint32_t crc = crc32c::Compute(sample->stream.data() + place.object_offset + at, bytes);
    sample->image.extents.push_back({0, sample->image.regions[0].bytes, bytes, chunk, at, crc});
    sample->image.regions[0].bytes += bytes;
    at += bytes + (random.Chance(0.3) ? random.Below(5) : 0);
  }
}

Sample MakeSample(uint64_t seed) {
  Random random(seed);
  Sample sample;
  sample.image.identity = {{{1, 2}, "job", "name", 1, 1, 1}, 3, 4};
  sample.image.regions.resize(1);
  sample.image.regions[0].id = 5;
  sample.image.objects = {"elsewhere"};
  sample.image.chunks = {{0, 0, 30'001}, {1, 0, 50'000}, {0, 40'960, 4096}, {0, 45'056, 20'000}};
  sample.stream.assign(65'536 + kRecordBytes, std::byte{0});
  for (const Chunk& chunk : sample.image.chunks) {
    if (chunk.object == 0) random.Fill(sample.stream.data() + chunk.object_offset, chunk.bytes);
  }
  random.Fill(sample.stream.data() + 65'536, kRecordBytes);
  for (const uint32_t chunk : {0u, 2u, 3u}) AddExtents(random, chunk, &sample);
  return sample;
}

// As Build, but what the checksums of capture tell is not read; `read` counts the bytes that are.
Result<BlockTable> BuildByCapture(const Sample& sample, const Buffer& bytes, uint64_t* read) {
  const auto stream = ImageStream::Make(sample.image, kRecordBytes);
  KEDGE_CHECK(stream.ok());
  StreamTableBuilder builder(sample.image, *stream, kBlockBytesMin);
  *read = 0;
  for (const StreamPiece& piece : stream->pieces()) {
    if (piece.part == StreamPart::kGap) builder.AddGap(piece.bytes);
    for (uint64_t done = 0; piece.part != StreamPart::kGap && done < piece.bytes;) {
      const uint64_t known = builder.AddKnown(piece.bytes - done);
      done += known;
      if (known > 0) continue;
      const uint64_t part = std::min(builder.UnknownBytes(), piece.bytes - done);
      KEDGE_RETURN_IF_ERROR(builder.Add(ByteSpan(bytes).subspan(piece.stream_offset + done, part)));
      done += part;
      *read += part;
    }
  }
  return builder.Finish();
}

// Feeds `bytes` in parts of at most `part_max`; the first error, or the table.
Result<BlockTable> Build(Random& random, const Sample& sample, const Buffer& bytes, uint64_t part_max) {
  const auto stream = ImageStream::Make(sample.image, kRecordBytes);
  KEDGE_CHECK(stream.ok());
  StreamTableBuilder builder(sample.image, *stream, kBlockBytesMin);
  for (const StreamPiece& piece : stream->pieces()) {
    if (piece.part == StreamPart::kGap) {
      builder.AddGap(piece.bytes);
      continue;
    }
    for (uint64_t done = 0; done < piece.bytes;) {
      const uint64_t part = std::min(1 + random.Below(part_max), piece.bytes - done);
      KEDGE_RETURN_IF_ERROR(builder.Add(ByteSpan(bytes).subspan(piece.stream_offset + done, part)));
      done += part;
    }
  }
  return builder.Finish();
}

TEST(ImageStream, CoversTheObjectWithoutHoles) {
  const Sample sample = MakeSample(1);
  const auto stream = ImageStream::Make(sample.image, kRecordBytes);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(stream->bytes(), sample.stream.size());
  EXPECT_EQ(stream->record_offset(), 65'536u);
  uint64_t end = 0;
  for (const StreamPiece& piece : stream->pieces()) {
    EXPECT_EQ(piece.stream_offset, end);
    end += piece.bytes;
  }
  EXPECT_EQ(end, stream->bytes());
  EXPECT_EQ(stream->pieces().size(), 6u) << "chunk, gap, chunk, chunk, gap, record";
  EXPECT_EQ(stream->Range(30'000, 11'000), (std::vector<StreamPiece>{{StreamPart::kChunk, 0, 30'000, 30'000, 1},
                                                                     {StreamPart::kGap, 0, 0, 30'001, 10'959},
                                                                     {StreamPart::kChunk, 2, 0, 40'960, 40}}));
  EXPECT_EQ(stream->Range(65'537, 2), (std::vector<StreamPiece>{{StreamPart::kRecord, 0, 1, 65'537, 2}}));
  EXPECT_TRUE(stream->Range(stream->bytes(), 0).empty());
}

TEST(ImageStream, OfAnImageWithoutChunksIsItsRecord) {
  const auto stream = ImageStream::Make(ImageRecord{}, kRecordBytes);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(stream->bytes(), kRecordBytes);
  EXPECT_EQ(stream->record_offset(), 0u);
}

TEST(ImageStream, RefusesWhatNoCaptureMakes) {
  ImageRecord image;
  image.chunks = {{0, 0, 5000}, {0, 4096, 10}};
  EXPECT_THAT(ImageStream::Make(image, 1).status().ToString(), HasSubstr("chunk 1 overlaps"));
  image.chunks = {{0, uint64_t{1} << 50, 10}};
  EXPECT_THAT(ImageStream::Make(image, 1).status().ToString(), HasSubstr("beyond what all chunks would take"));
  image.chunks = {{0, 0, ~uint64_t{0}}};
  EXPECT_THAT(ImageStream::Make(image, 1).status().ToString(), HasSubstr("too large"));
}

TEST(StreamTable, IsThatOfTheBytesHoweverTheyArrive) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    const Sample sample = MakeSample(seed);
    BlockTableBuilder plain(sample.stream.size(), kBlockBytesMin);
    plain.Add(sample.stream);
    const BlockTable expected = plain.Finish();
    for (const uint64_t part_max : {7u, 5000u, 1u << 20}) {
      const auto table = Build(random, sample, sample.stream, part_max);
      ASSERT_TRUE(table.ok()) << table.status().ToString();
      EXPECT_EQ(*table, expected);
    }
  }
}

TEST(StreamTable, ByTheChecksumsOfCaptureIsThatOfTheBytes) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Sample sample = MakeSample(seed);
    BlockTableBuilder plain(sample.stream.size(), kBlockBytesMin);
    plain.Add(sample.stream);
    const BlockTable expected = plain.Finish();
    uint64_t read = 0;
    const auto table = BuildByCapture(sample, sample.stream, &read);
    ASSERT_TRUE(table.ok()) << table.status().ToString();
    EXPECT_EQ(*table, expected);
    EXPECT_LT(read, sample.stream.size());
  }
}

// What was not read is as it was captured in the table, so that whoever reads the block finds it; what was read is found at once.
TEST(StreamTable, ByTheChecksumsOfCaptureShowsEveryByteThatFlippedSince) {
  const Sample sample = MakeSample(3);
  uint64_t read = 0;
  const BlockTable right = *BuildByCapture(sample, sample.stream, &read);
  std::vector<bool> covered(sample.stream.size());
  for (const Extent& extent : sample.image.extents) {
    const uint64_t begin = sample.image.chunks[extent.chunk].object_offset + extent.chunk_offset;
    std::fill_n(covered.begin() + static_cast<std::ptrdiff_t>(begin), extent.bytes, true);
  }
  Buffer damaged = sample.stream;
  for (size_t at = 0; at < 65'536; at += 13) {
    if (!covered[at]) continue;
    damaged[at] ^= std::byte{2};
    const auto table = BuildByCapture(sample, damaged, &read);
    if (table.ok()) {
      const uint64_t block = at / kBlockBytesMin * kBlockBytesMin;
      EXPECT_FALSE(BlockIsRight(*table, block, ByteSpan(damaged).subspan(block, BlockLength(*table, block)))) << at;
      EXPECT_EQ(*table, right);
    } else {
      EXPECT_EQ(table.status().code(), Code::kCorrupt);
    }
    damaged[at] ^= std::byte{2};
  }
}

TEST(StreamTable, EveryByteThatFlippedAfterCaptureIsFound) {
  const Sample sample = MakeSample(3);
  Random random(3);
  Buffer damaged = sample.stream;
  std::vector<bool> covered(sample.stream.size());
  for (const Extent& extent : sample.image.extents) {
    const uint64_t begin = sample.image.chunks[extent.chunk].object_offset + extent.chunk_offset;
    std::fill_n(covered.begin() + static_cast<std::ptrdiff_t>(begin), extent.bytes, true);
  }
  for (size_t at = 0; at < 65'536; at += 13) {
    damaged[at] ^= std::byte{2};
    const auto table = Build(random, sample, damaged, 1 << 20);
    EXPECT_EQ(table.ok(), !covered[at]) << at;
    if (!table.ok()) {
      EXPECT_EQ(table.status().code(), Code::kCorrupt);
      EXPECT_THAT(table.status().message(), HasSubstr("region 5"));
    }
    damaged[at] ^= std::byte{2};
  }
}

// Shared content: two extents over the same bytes, and one inside another.
TEST(StreamTable, OverlappingExtentsAreBothChecked) {
  Sample sample = MakeSample(4);
  const Extent first = sample.image.extents[0];
  Extent inside = first;
  inside.chunk_offset += first.bytes / 2;
  inside.bytes -= first.bytes / 2;
  inside.crc32c = crc32c::Compute(sample.stream.data() + inside.chunk_offset, inside.bytes);
  sample.image.extents.push_back(inside);
  sample.image.extents.push_back(first);
  Random random(4);
  EXPECT_TRUE(Build(random, sample, sample.stream, 100).ok());
  uint64_t read = 0;
  EXPECT_EQ(*BuildByCapture(sample, sample.stream, &read), *Build(random, sample, sample.stream, 100));
  sample.image.extents[sample.image.extents.size() - 2].crc32c ^= 1;
  EXPECT_FALSE(Build(random, sample, sample.stream, 100).ok());
}

TEST(BlockTable, CoarsensToWhatTheBytesGive) {
  Random random(5);
  for (const size_t bytes : {0u, 1u, 4096u, 4097u, 70'000u}) {
    Buffer data(bytes);
    random.Fill(data.data(), bytes);
    BlockTableBuilder fine(bytes, kBlockBytesMin);
    fine.Add(data);
    BlockTableBuilder coarse(bytes, 4 * kBlockBytesMin);
    coarse.Add(data);
    EXPECT_EQ(Coarsen(fine.Finish(), 4 * kBlockBytesMin), coarse.Finish()) << bytes;
  }
}

TEST(BlockTable, WhileItIsMadeTheFirstWholeBlockThatDiffersIsFound) {
  Buffer data(10'000, std::byte{7});
  BlockTableBuilder right(data.size(), kBlockBytesMin);
  right.Add(data);
  const BlockTable expected = right.Finish();
  data[5000] ^= std::byte{1};
  BlockTableBuilder builder(data.size(), kBlockBytesMin);
  builder.Add(ByteSpan(data).first(8000));
  EXPECT_EQ(builder.FirstDifference(expected, 0), std::nullopt) << "its block is not whole yet";
  builder.Add(ByteSpan(data).subspan(8000));
  EXPECT_EQ(builder.FirstDifference(expected, 0), 4096u);
  EXPECT_EQ(builder.FirstDifference(expected, 8192), std::nullopt);
  EXPECT_EQ(FirstWrongBlock(expected, 0, data), 4096u);
  EXPECT_EQ(FirstWrongBlock(expected, 8192, ByteSpan(data).subspan(8192)), std::nullopt);
}

TEST(BlockTable, TellsRightFromWrong) {
  Buffer data(10'000, std::byte{7});
  BlockTableBuilder builder(data.size(), kBlockBytesMin);
  builder.AddZeros(0);
  builder.Add(data);
  const BlockTable table = builder.Finish();
  EXPECT_EQ(BlockLength(table, 8192), 1808u);
  EXPECT_TRUE(BlockIsRight(table, 8192, ByteSpan(data).subspan(8192)));
  EXPECT_FALSE(BlockIsRight(table, 8192, ByteSpan(data).subspan(8191)));
  data[9999] = std::byte{6};
  EXPECT_FALSE(BlockIsRight(table, 8192, ByteSpan(data).subspan(8192)));
  EXPECT_TRUE(BlockIsRight(table, 4096, ByteSpan(data).subspan(4096, 4096)));
}

}  // namespace
}  // namespace kedge::redundancy
