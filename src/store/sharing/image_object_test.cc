// Images with block maps: every byte is read from where it lies, whatever a reader asks for at a time.
#include "store/sharing/image_object.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/crc32c.h"
#include "base/random.h"
#include "os/testing/simulated_file_system.h"
#include "reduce/stored_block.h"
#include "store/posix/posix_store.h"
#include "store/publish.h"
#include "store/verify.h"

namespace kedge {
namespace {

constexpr uint32_t kBlock = kMapBlockBytesMin;

class ImageObjectTest : public ::testing::Test {
 protected:
  ImageObjectTest()
      : store_(MakePosixStore(fs_, {.path = "/store"})),
        catalog_(Catalog::OpenOrCreate(*store_, {"node1", 1, "agent"}).value()),
        generation_{catalog_.id(), "job", "grid", 1, 1, 1} {}

  void Write(const std::string& key, ByteSpan bytes) {
    const auto writer = store_->CreateObject(key, catalog_.owner(), 0);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->WriteAt(0, bytes).ok());
    ASSERT_TRUE((*writer)->Commit().ok());
  }

  // An image of two chunks with a gap between them, all of whose blocks lie somewhere at random: `stream_` has its bytes.
  void Publish(uint64_t seed) {
    Random random(seed);
    ImageRecord record;
    record.identity = {generation_, 0, 1};
    const uint64_t first_bytes = 1 + random.Below(20 * kBlock), second_bytes = 1 + random.Below(20 * kBlock);
    const uint64_t second = AlignChunkOffset(first_bytes) + random.Below(3) * kChunkAlignment;
    record.chunks = {{0, 0, first_bytes}, {0, second, second_bytes}};
    stream_.assign(second + second_bytes, std::byte{0});
    Buffer own, shared(30 * kBlock);
    Random(1).Fill(shared.data(), shared.size());  // the same whatever the seed: other versions have it
    const std::string shared_key = "names/grid/0-1-1/data/r0";
    Write(keys::JobFolder("job") + '/' + shared_key, shared);
    map_ = {};
    map_.identity = record.identity;
    map_.objects = {{shared_key, shared.size()}};
    const BlockLayout layout(record, map_.block_bytes);
    for (uint64_t block = 0; block < layout.blocks(); ++block) {
      const BlockLayout::Block place = layout.At(block);
      std::byte* const bytes = &stream_[place.stream_offset];
      switch (random.Below(4)) {
        case 0: map_.runs.push_back({kZeroBlocks, 1, 0}); continue;
        case 1:
          own.resize(AlignChunkOffset(own.size()));
          map_.runs.push_back({kOwnBlocks, 1, own.size()});
          random.Fill(bytes, place.bytes);
          own.resize(own.size() + kBlock);
          std::memcpy(&own[own.size() - kBlock], bytes, place.bytes);
          break;
        case 2: {
          // One behind the other where they can be.
          if (map_.runs.empty() || !map_.runs.back().is_compressed) map_.runs.push_back({kOwnBlocks, 0, own.size(), true});
          ++map_.runs.back().blocks;
          random.Fill(bytes, place.bytes / 2);
          Buffer stored(place.bytes + kStoredBlockOverheadBytes);
          map_.stored_bytes.push_back(
              static_cast<uint32_t>(reduce::StoreBlock(ByteSpan(bytes, place.bytes), {}, stored).value()));
          own.insert(own.end(), stored.begin(), stored.begin() + map_.stored_bytes.back());
          break;
        }
        default: {
          const uint64_t at = random.Below(30) * kBlock;
          map_.runs.push_back({kSharedBlocks, 1, at});
          std::memcpy(bytes, &shared[at], place.bytes);
        }
      }
      map_.fingerprints.emplace_back();
    }
    for (uint32_t chunk = 0; chunk < 2; ++chunk) {
      const Chunk& of = record.chunks[chunk];
      record.regions.emplace_back();
      record.regions.back().id = static_cast<int32_t>(chunk);
      record.regions.back().bytes = of.bytes;
      record.extents.push_back({chunk, 0, of.bytes, chunk, 0, crc32c::Compute(&stream_[of.object_offset], of.bytes)});
    }
    own.resize(AlignChunkOffset(own.size()));
    PublishRecords(record, own);
  }

  void PublishRecords(const ImageRecord& record, Buffer object) {
    ImageEntry entry{0, keys::ReducedImageObject(0), object.size(), 0, 0, record.RegionBytes()};
    ASSERT_TRUE(EncodeImageRecord(record, &object).ok());
    entry.record_bytes = object.size() - entry.record_offset;
    entry.record_crc32c = crc32c::Compute(&object[entry.record_offset], entry.record_bytes);
    Encode(map_, &object);
    const uint64_t map_offset = entry.record_offset + entry.record_bytes;
    entry.map_bytes = object.size() - map_offset;
    entry.map_crc32c = crc32c::Compute(&object[map_offset], entry.map_bytes);
    ASSERT_TRUE(PrepareGeneration(catalog_, generation_).ok());
    Write(keys::GenerationFolder(generation_) + '/' + entry.object, object);
    ASSERT_TRUE(CommitPart(catalog_, {generation_, 1, {entry}, {"names/grid/0-1-1"}}).value().complete);
  }

  os::testing::SimulatedFileSystem fs_{{.seed = 1}};
  const std::unique_ptr<Store> store_;
  const Catalog catalog_;
  Generation generation_;
  Buffer stream_;
  BlockMap map_;
};

TEST_F(ImageObjectTest, AnyRangeIsReadRight) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    generation_.version = static_cast<int64_t>(seed) + 1;
    Publish(seed);
    const auto image = ReadImage(catalog_, generation_, 0);
    ASSERT_TRUE(image.ok()) << image.status().ToString();
    EXPECT_EQ(image->map, map_);
    const auto object = OpenChunkObject(catalog_, *image, image->record.chunks[0]).value();
    EXPECT_EQ(object->size_bytes(), stream_.size());
    Random random(seed);
    for (int i = 0; i < 100; ++i) {
      const uint64_t at = random.Below(stream_.size());
      Buffer found(1 + random.Below(stream_.size() - at), std::byte{7});
      ASSERT_TRUE(object->ReadAt(at, found).ok());
      ASSERT_TRUE(std::equal(found.begin(), found.end(), &stream_[at])) << at;
    }
    const VerifyReport report = VerifyVersion(catalog_, generation_, {}).value();
    EXPECT_TRUE(report.problems.empty()) << report.problems.front().what;
    EXPECT_EQ(report.bytes, image->record.RegionBytes());
    const StoredBytes bytes = StoredBytesOf(*image);
    EXPECT_EQ(bytes.own + bytes.shared + bytes.zeros + bytes.copies, image->record.RegionBytes());
  }
}

TEST_F(ImageObjectTest, WhatIsDamagedElsewhereIsTold) {
  Publish(3);
  const std::string shared_key = keys::JobFolder("job") + '/' + map_.objects[0].key;
  Write(shared_key, Buffer(30 * kBlock));
  VerifyReport report = VerifyVersion(catalog_, generation_, {}).value();
  ASSERT_FALSE(report.problems.empty());
  ASSERT_TRUE(store_->Remove(shared_key).ok());
  report = VerifyVersion(catalog_, generation_, {}).value();
  ASSERT_FALSE(report.problems.empty());
  EXPECT_NE(report.problems.front().what.find(map_.objects[0].key), std::string::npos) << report.problems.front().what;
}

TEST_F(ImageObjectTest, ABitThatFlipsInACompressedBlockIsTold) {
  Publish(4);
  const StoredImage image = ReadImage(catalog_, generation_, 0).value();
  const auto run = std::find_if(map_.runs.begin(), map_.runs.end(), [](const BlockRun& one) { return one.is_compressed; });
  ASSERT_NE(run, map_.runs.end());
  Buffer object(store_->OpenObject(image.object_key).value()->size_bytes());
  ASSERT_TRUE(store_->OpenObject(image.object_key).value()->ReadAt(0, object).ok());
  object[run->offset + map_.stored_bytes.front() - 1] ^= std::byte{1};
  Write(image.object_key, object);
  const VerifyReport report = VerifyVersion(catalog_, generation_, {}).value();
  ASSERT_FALSE(report.problems.empty());
  EXPECT_NE(report.problems.front().what.find(fmt::format("{} at {}", image.object_key, run->offset)), std::string::npos)
      << report.problems.front().what;
}

TEST_F(ImageObjectTest, AMapThatIsNotTheImagesIsCorrupt) {
  const auto status_of = [&](const std::function<void()>& breakage) {
    ++generation_.version;
    ImageRecord record;
    record.identity = {generation_, 0, 1};
    record.chunks = {{0, 0, 3 * kBlock - 1}};
    record.regions.resize(1);
    record.regions.front().bytes = 3 * kBlock - 1;
    record.extents.push_back({0, 0, 3 * kBlock - 1, 0, 0, 0});
    map_ = {};
    map_.identity = record.identity;
    map_.objects = {{"names/grid/0-1-1/data/r0", kBlock}};
    map_.runs = {{kOwnBlocks, 3, 0}};
    map_.fingerprints.resize(3);
    breakage();
    Write(keys::JobFolder("job") + "/names/grid/0-1-1/data/r0", Buffer(1));
    PublishRecords(record, Buffer(3 * kBlock));
    return ReadImage(catalog_, generation_, 0).status().code();
  };
  EXPECT_EQ(status_of([] {}), Code::kOk);
  EXPECT_EQ(status_of([&] { map_.runs[0].offset = kBlock; }), Code::kCorrupt) << "ends behind the object";
  const auto compressed_until = [&](uint64_t end) {
    return [&, end] {
      map_.runs = {{kOwnBlocks, 3, end - 300, true}};
      map_.stored_bytes = {100, 100, 100};
    };
  };
  EXPECT_EQ(status_of(compressed_until(3 * kBlock)), Code::kOk);
  EXPECT_EQ(status_of(compressed_until(3 * kBlock + 1)), Code::kCorrupt) << "the last one ends behind it";
  EXPECT_EQ(status_of([&] { map_.runs.push_back({kZeroBlocks, 1, 0}); }), Code::kCorrupt) << "more blocks than it has";
  EXPECT_EQ(status_of([&] {
              map_.runs = {{kOwnBlocks, 2, 0}};
              map_.fingerprints.pop_back();
            }),
            Code::kCorrupt);
  EXPECT_EQ(status_of([&] { map_.identity.generation.version = 77; }), Code::kCorrupt);
  // Its own object damaged.
  ++generation_.version;
  Publish(5);
  const StoredImage image = ReadImage(catalog_, generation_, 0).value();
  Buffer object(image.entry.record_offset + image.entry.record_bytes + image.entry.map_bytes);
  ASSERT_TRUE(store_->OpenObject(image.object_key).value()->ReadAt(0, object).ok());
  object[image.entry.record_offset + image.entry.record_bytes + 50] ^= std::byte{1};
  Write(image.object_key, object);
  EXPECT_EQ(ReadImage(catalog_, generation_, 0).status().code(), Code::kCorrupt);
  object.resize(object.size() - 1);
  Write(image.object_key, object);
  EXPECT_EQ(ReadImage(catalog_, generation_, 0).status().code(), Code::kCorrupt);
}

// By an agent whose predecessor died before it knew that it had published: what stands there is not touched.
TEST_F(ImageObjectTest, WrittenOnceMoreItStaysWhatItWas) {
  Publish(7);
  const StoredImage first = ReadImage(catalog_, generation_, 0).value();
  const Buffer first_stream = stream_;
  Publish(8);
  EXPECT_EQ(ReadImage(catalog_, generation_, 0)->object_key, first.object_key);
  EXPECT_TRUE(VerifyVersion(catalog_, generation_, {})->problems.empty());
  EXPECT_EQ(store_->List(keys::GenerationFolder(generation_) + "/data")->size(), 1u) << "nobody needs the second one";
  Buffer found(first_stream.size());
  ASSERT_TRUE(OpenChunkObject(catalog_, first, first.record.chunks[0]).value()->ReadAt(0, found).ok());
  EXPECT_TRUE(
      std::equal(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(first.record.chunks[0].bytes), first_stream.begin()));
}

TEST_F(ImageObjectTest, IsNotCompleteWithoutWhatItRefersTo) {
  Publish(6);
  ++generation_.version;
  ASSERT_TRUE(PrepareGeneration(catalog_, generation_).ok());
  Write(keys::ImageKey(generation_, 0), Buffer(10));
  const PartRecord part{generation_, 1, {{0, keys::ImageObject(0), 0, 10, 0, 0}}, {"names/grid/99-1-1"}};
  const Status refused = CommitPart(catalog_, part).status();
  EXPECT_EQ(refused.code(), Code::kNotFound);
  EXPECT_NE(refused.message().find("99-1-1"), std::string::npos) << refused.ToString();
}

}  // namespace
}  // namespace kedge
