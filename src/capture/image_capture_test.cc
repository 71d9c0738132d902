// Images captured into a store: what the record says, what was written, and what a failing device does to it.
#include "capture/image_capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>

#include "base/crc32c.h"
#include "base/random.h"
#include "capture/store_sink.h"
#include "format/image_record.h"
#include "os/testing/simulated_file_system.h"
#include "redundancy/geometry.h"
#include "redundancy/stream.h"
#include "store/posix/posix_store.h"
#include "store/verify.h"
#include "store/versions.h"

namespace kedge {
namespace {

constexpr LayoutLimits kLimits{64 << 10, 8 << 10};

class ImageCaptureTest : public ::testing::Test {
 protected:
  ImageCaptureTest() {
    PosixStoreOptions options;
    options.path = "/store";
    store_ = MakePosixStore(disk_, options);
    catalog_.emplace(Catalog::OpenOrCreate(*store_, {"node", 1, "r0"}).value());
    identity_.generation = {catalog_->id(), "job", "name", 1, 1, 1};
    identity_.ranks = 1;
  }

  static std::string Content(uint64_t seed, size_t bytes) {
    std::string content(bytes, '\0');
    Random(seed).Fill(content.data(), bytes);
    return content;
  }
  static Region RegionOf(int id, uint64_t bytes) {
    Region region;
    region.id = id;
    region.bytes = bytes;
    return region;
  }
  // Captures `regions` in one part.
  Status Capture(const std::vector<std::string>& regions) {
    StoreSink sink(&*catalog_, kLimits);
    KEDGE_RETURN_IF_ERROR(capture_.Begin(&sink, identity_, "group", 0));
    Status status = CapturePart(regions);
    if (status.ok()) status = capture_.End(42);
    if (!status.ok()) capture_.Abort();
    return status;
  }
  Status CapturePart(const std::vector<std::string>& regions) {
    std::vector<uint64_t> sizes;
    for (const std::string& region : regions) sizes.push_back(region.size());
    KEDGE_RETURN_IF_ERROR(capture_.BeginPart(sizes));
    for (size_t i = 0; i < regions.size(); ++i) {
      KEDGE_RETURN_IF_ERROR(capture_.AddRegion(RegionOf(static_cast<int>(i), regions[i].size()), regions[i].data()));
    }
    return Status::Ok();
  }
  // The image as the store has it, every byte checked.
  ImageRecord Stored() {
    auto image = ReadImage(*catalog_, identity_.generation, 0);
    EXPECT_TRUE(image.ok()) << image.status().ToString();
    auto report = VerifyVersion(*catalog_, identity_.generation, {});
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    if (report.ok()) {
      EXPECT_TRUE(report->problems.empty());
    }
    return image.ok() ? image->record : ImageRecord{};
  }

  os::testing::SimulatedFileSystem disk_;
  std::unique_ptr<Store> store_;
  std::optional<Catalog> catalog_;
  ImageIdentity identity_;
  ImageCapture capture_;
};

// Writes down the order of what it is told, with slots in memory or without.
class OrderSink final : public ImageSink {
 public:
  explicit OrderSink(bool in_memory) : memory_(in_memory ? kLimits.chunk_bytes : 0) {}
  const LayoutLimits& limits() const override { return kLimits; }
  Status Begin(const ImageIdentity&, uint64_t) override { return Status::Ok(); }
  Result<ChunkTarget> OpenChunk(uint32_t chunk, uint64_t) override {
    order += "open" + std::to_string(chunk) + " ";
    return ChunkTarget{memory_.empty() ? nullptr : memory_.data()};
  }
  void ExpectChunk(uint64_t bytes) override { order += "expect" + std::to_string(bytes >> 10) + " "; }
  bool GrowChunk(uint64_t) override { return false; }
  Status Write(uint64_t offset, const std::byte*, uint64_t) override {
    order += "write" + std::to_string(offset >> 10) + " ";
    return Status::Ok();
  }
  void Progress(uint64_t) override {}
  Status CloseChunk(uint64_t bytes, ImageRecord* record) override {
    order += "close ";
    record->chunks.push_back(Chunk{0, 0, bytes});
    return Status::Ok();
  }
  Status End(const ImageRecord&) override { return Status::Ok(); }
  void Abort() override {}
  std::string order;

 private:
  std::vector<std::byte> memory_;
};

// Slots in memory of which the images build on each other, and the agent that fills in what they leave out.
class BuildingSink final : public ImageSink {
 public:
  const LayoutLimits& limits() const override { return kLimits; }
  Status Begin(const ImageIdentity&, uint64_t) override {
    chunks_.clear();
    gaps.clear();
    return Status::Ok();
  }
  Result<ChunkTarget> OpenChunk(uint32_t, uint64_t) override {
    chunks_.push_back(std::make_unique<std::byte[]>(kLimits.chunk_bytes));
    std::memset(chunks_.back().get(), 0xEE, kLimits.chunk_bytes);
    return ChunkTarget{chunks_.back().get()};
  }
  void ExpectChunk(uint64_t) override {}
  bool GrowChunk(uint64_t) override { return false; }
  Status Write(uint64_t, const std::byte*, uint64_t) override { return Status(Code::kInternal, "it has memory"); }
  void Progress(uint64_t) override {}
  const ImageBase* base() const override { return has_base ? &base_ : nullptr; }
  void LeaveOut(uint64_t offset, uint64_t bytes) override {
    const auto chunk = static_cast<uint32_t>(chunks_.size() - 1);
    gaps.push_back({chunk, offset, bytes});
    std::memcpy(chunks_[chunk].get() + offset, base_.chunks[chunk] + offset, bytes);
  }
  Status CloseChunk(uint64_t bytes, ImageRecord* record) override {
    record->chunks.push_back(Chunk{0, object_offset_, bytes});
    object_offset_ = AlignChunkOffset(object_offset_ + bytes);
    return Status::Ok();
  }
  Status End(const ImageRecord& record) override {
    object_offset_ = 0;
    base_.record = record;
    base_.chunks.clear();
    for (const auto& chunk : chunks_) base_.chunks.push_back(chunk.get());
    base_memory_ = std::move(chunks_);
    has_base = true;
    return Status::Ok();
  }
  void Abort() override {}

  // A region of the image that ended last, every extent checked.
  std::string Region(uint32_t region) const {
    std::string bytes;
    for (const Extent& extent : base_.record.extents) {
      if (extent.region != region) continue;
      const std::byte* const from = base_.chunks[extent.chunk] + extent.chunk_offset;
      EXPECT_EQ(crc32c::Compute(from, extent.bytes), extent.crc32c) << "at " << extent.region_offset;
      bytes.append(reinterpret_cast<const char*>(from), extent.bytes);
    }
    return bytes;
  }
  // A chunk of it is in memory no longer.
  void Unmap(size_t chunk) { base_.chunks[chunk] = nullptr; }

  bool has_base = false;
  std::vector<std::array<uint64_t, 3>> gaps;  // chunk, offset, bytes

 private:
  std::vector<std::unique_ptr<std::byte[]>> chunks_, base_memory_;
  ImageBase base_;
  uint64_t object_offset_ = 0;
};

// Bytes that are said not to have changed are never read: those given are other ones than the base's there.
TEST_F(ImageCaptureTest, WhatHasNotChangedComesFromTheBaseWithTheRightChecksums) {
  Random random(7);
  BuildingSink sink;
  const std::vector<uint64_t> sizes = {100, 200'001, 8192, 150'000};
  std::vector<std::string> expected;
  for (const uint64_t size : sizes) expected.push_back(Content(size, size));
  uint64_t all_bytes = 0;
  for (const uint64_t size : sizes) all_bytes += size;
  for (int image = 0; image < 60; ++image) {
    SCOPED_TRACE(image);
    ASSERT_TRUE(capture_.Begin(&sink, identity_, "", all_bytes).ok());
    ASSERT_TRUE(capture_.BeginPart(sizes).ok());
    const bool builds = sink.has_base;
    uint64_t changed_bytes = 0;
    for (size_t region = 0; region < sizes.size(); ++region) {
      std::vector<ChangedRange> changed;
      std::string given = builds ? Content(1000 + static_cast<uint64_t>(image), sizes[region]) : expected[region];
      // From nothing over single bytes to all of it.
      for (uint64_t at = random.Below(sizes[region]); builds && at < sizes[region];) {
        const uint64_t bytes = std::min(1 + random.Below(random.Below(4) == 0 ? 30'000 : 5), sizes[region] - at);
        changed.push_back({at, bytes});
        changed_bytes += bytes;
        std::copy_n(given.data() + at, bytes, expected[region].data() + at);
        at += bytes + 1 + random.Below(20'000);
      }
      ASSERT_TRUE(capture_.AddChangedRegion(RegionOf(static_cast<int>(region), sizes[region]), given.data(), changed).ok());
    }
    ASSERT_TRUE(capture_.End(0).ok());
    EXPECT_EQ(capture_.bytes_captured(), all_bytes);
    EXPECT_EQ(capture_.bytes_left_out(), builds ? all_bytes - changed_bytes : 0);
    for (size_t region = 0; region < sizes.size(); ++region) {
      EXPECT_EQ(sink.Region(static_cast<uint32_t>(region)), expected[region]);
    }
  }
}

// What the base has elsewhere, or otherwise, or not in memory, is copied whole.
TEST_F(ImageCaptureTest, AnotherLayoutThanTheBasesIsCapturedWhole) {
  const auto capture = [&](BuildingSink& sink, const std::vector<std::pair<int, std::string>>& regions) {
    std::vector<uint64_t> sizes;
    for (const auto& [id, content] : regions) sizes.push_back(content.size());
    EXPECT_TRUE(capture_.Begin(&sink, identity_, "", 0).ok());
    EXPECT_TRUE(capture_.BeginPart(sizes).ok());
    for (const auto& [id, content] : regions) {
      EXPECT_TRUE(capture_.AddChangedRegion(RegionOf(id, content.size()), content.data(), {}).ok());
    }
    EXPECT_TRUE(capture_.End(0).ok());
    for (uint32_t i = 0; i < regions.size(); ++i) EXPECT_EQ(sink.Region(i), regions[i].second);
    return capture_.bytes_left_out();
  };
  const std::string first = Content(1, 40'000), second = Content(2, 70'000), third = Content(3, 500);
  BuildingSink sink;
  EXPECT_EQ(capture(sink, {{1, first}, {2, second}}), 0u) << "there is no base";
  EXPECT_EQ(capture(sink, {{1, first}, {2, second}}), 110'000u);
  EXPECT_EQ(capture(sink, {{2, second}, {1, first}}), 0u) << "they lie elsewhere";
  EXPECT_EQ(capture(sink, {{2, second}, {3, first}}), 70'000u) << "another region";
  EXPECT_EQ(capture(sink, {{4, third}, {2, second}, {3, first}}), 0u) << "a region more before them";
  EXPECT_EQ(capture(sink, {{4, third}, {2, second}, {3, first + "x"}}), 70'500u) << "a region that has grown";
  sink.Unmap(1);
  EXPECT_LT(capture(sink, {{4, third}, {2, second}, {3, first + "x"}}), 110'501u - 8192u) << "a chunk that is not in memory";
  sink.has_base = false;
  EXPECT_EQ(capture(sink, {{4, third}, {2, second}}), 0u);
}

TEST_F(ImageCaptureTest, TheNextPlaceIsAskedForAheadButIsNotHeldForTheTimeOfASlowChunk) {
  const std::string content = Content(1, 80 << 10);
  const uint64_t bytes = content.size();
  for (const bool in_memory : {true, false}) {
    OrderSink sink(in_memory);
    ASSERT_TRUE(capture_.Begin(&sink, identity_, "", bytes).ok());
    ASSERT_TRUE(capture_.BeginPart({&bytes, 1}).ok());
    ASSERT_TRUE(capture_.AddRegion(RegionOf(0, bytes), content.data()).ok());
    ASSERT_TRUE(capture_.End(0).ok());
    EXPECT_EQ(sink.order, in_memory ? "open0 expect16 close open1 close "
                                    : "open0 write0 write8 write16 write24 write32 write40 write48 expect16 write56 close "
                                      "open1 write0 write8 close ");
  }
}

TEST_F(ImageCaptureTest, ExtentsCoverEveryByteWithItsChecksum) {
  const std::vector<std::string> regions = {Content(1, 10),   Content(2, 100000), "",
                                            Content(3, 7999), Content(4, 8192),   Content(5, 3)};
  ASSERT_TRUE(Capture(regions).ok());
  const ImageRecord record = Stored();
  EXPECT_EQ(record.group, "group");
  EXPECT_EQ(record.wall_time_ns, 42);
  ASSERT_EQ(record.regions.size(), regions.size());
  uint64_t covered = 0;
  for (const Extent& extent : record.extents) {
    EXPECT_LE(extent.bytes, kLimits.piece_bytes);
    const std::string& region = regions[extent.region];
    ASSERT_LE(extent.region_offset + extent.bytes, region.size());
    EXPECT_EQ(extent.crc32c, crc32c::Compute(region.data() + extent.region_offset, extent.bytes));
    covered += extent.bytes;
  }
  EXPECT_EQ(covered, record.RegionBytes());
  for (const Chunk& chunk : record.chunks) EXPECT_EQ(chunk.object_offset % kChunkAlignment, 0u);
}

// Protection needs the checksums of blocks of the image's stream: of a larger image they follow from those of capture, wherever
// its chunks begin, but for the block in which it ends.
TEST_F(ImageCaptureTest, ExtentsOfALargerImageGiveTheChecksumsOfItsBlocks) {
  const std::vector<uint64_t> sizes = {100, 5'000'001, 30, 12'345'678};
  const uint64_t bytes = 100 + 5'000'001 + 30 + 12'345'678;
  StoreSink sink(&*catalog_, {4 << 20, 1 << 20});
  ASSERT_TRUE(capture_.Begin(&sink, identity_, "", bytes).ok());
  ASSERT_TRUE(capture_.BeginPart(sizes).ok());
  for (size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(capture_.AddRegion(RegionOf(static_cast<int>(i), sizes[i]), Content(i, sizes[i]).data()).ok());
  }
  ASSERT_TRUE(capture_.End(0).ok());
  const ImageRecord record = Stored();
  constexpr uint64_t kRecordBytes = 5000;
  const auto stream = redundancy::ImageStream::Make(record, kRecordBytes);
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  redundancy::StreamTableBuilder table(record, *stream, redundancy::BlockBytesFor(stream->bytes()));
  uint64_t known = 0;
  for (const redundancy::StreamPiece& piece : stream->pieces()) {
    if (piece.part == redundancy::StreamPart::kGap) table.AddGap(piece.bytes);
    if (piece.part == redundancy::StreamPart::kChunk) known += table.AddKnown(piece.bytes);
  }
  EXPECT_EQ(known, bytes);
}

TEST_F(ImageCaptureTest, PortionsOfAnySizeGiveTheSameImage) {
  const std::string content = Content(9, 50000);
  StoreSink sink(&*catalog_, kLimits);
  ASSERT_TRUE(capture_.Begin(&sink, identity_, "", 0).ok());
  const uint64_t size = content.size();
  ASSERT_TRUE(capture_.BeginPart({&size, 1}).ok());
  ASSERT_TRUE(capture_.OpenRegion(RegionOf(0, size)).ok());
  Random random(3);
  for (size_t at = 0; at < content.size();) {
    const size_t portion = std::min<size_t>(1 + random.Below(500), content.size() - at);
    ASSERT_TRUE(capture_.Append(content.data() + at, portion).ok());
    at += portion;
  }
  ASSERT_TRUE(capture_.CloseRegion().ok());
  ASSERT_TRUE(capture_.End(0).ok());
  const ImageRecord record = Stored();
  EXPECT_EQ(record.extents.size(), (content.size() + kLimits.piece_bytes - 1) / kLimits.piece_bytes);
}

TEST_F(ImageCaptureTest, SmallPartsShareAChunk) {
  StoreSink sink(&*catalog_, kLimits);
  ASSERT_TRUE(capture_.Begin(&sink, identity_, "", 0).ok());
  for (int i = 0; i < 100; ++i) {
    const uint64_t size = 10;
    ASSERT_TRUE(capture_.BeginPart({&size, 1}).ok());
    ASSERT_TRUE(capture_.AddRegion(RegionOf(i, size), "0123456789").ok());
  }
  ASSERT_TRUE(capture_.End(0).ok());
  EXPECT_EQ(Stored().chunks.size(), 1u);
}

TEST_F(ImageCaptureTest, TheNextImageForgetsTheOneBefore) {
  ASSERT_TRUE(Capture({Content(1, 5000), Content(2, 10), Content(3, 70000)}).ok());
  capture_.Annotate("late", "x");  // belongs to no image: Begin drops it
  identity_.generation.version = 2;
  ASSERT_TRUE(Capture({Content(4, 20)}).ok());
  const ImageRecord record = Stored();
  EXPECT_EQ(record.regions.size(), 1u);
  EXPECT_EQ(record.RegionBytes(), 20u);
  EXPECT_TRUE(record.annotations.empty());
}

TEST_F(ImageCaptureTest, AnImageWithoutBytes) {
  ASSERT_TRUE(Capture({}).ok());
  EXPECT_TRUE(Stored().regions.empty());
  identity_.generation.version = 2;
  ASSERT_TRUE(Capture({"", ""}).ok());
  EXPECT_EQ(Stored().regions.size(), 2u);
}

TEST_F(ImageCaptureTest, TooManyOrTooFewBytesAreRefused) {
  StoreSink sink(&*catalog_, kLimits);
  ASSERT_TRUE(capture_.Begin(&sink, identity_, "", 0).ok());
  const uint64_t size = 4;
  ASSERT_TRUE(capture_.BeginPart({&size, 1}).ok());
  ASSERT_TRUE(capture_.OpenRegion(RegionOf(0, size)).ok());
  ASSERT_TRUE(capture_.Append("ab", 2).ok());
  EXPECT_EQ(capture_.Append("cde", 3).code(), Code::kInvalidArgument);
  EXPECT_EQ(capture_.CloseRegion().code(), Code::kInvalidArgument);
  capture_.Abort();
  EXPECT_EQ(ReadImage(*catalog_, identity_.generation, 0).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace kedge
