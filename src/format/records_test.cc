// Every record: what is encoded comes back; any damage is refused, wherever it is; what is refused says why.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "format/testing/sample_records.h"

namespace kedge {
namespace {

using testing::AllSamples;
using testing::Sample;

TEST(Records, ARegionThatDoesNotFitIsToldWithItsNumbers) {
  Region region;
  region.id = 7;
  region.name = "type";
  region.bytes = 4;
  region.shape = {4};
  region.global_shape = {10};
  region.global_offset = {6};
  EXPECT_TRUE(ValidateRegion(region).ok());
  region.global_offset = {7};
  EXPECT_EQ(ValidateRegion(region).message(), "region 7 (type): a part lies outside its global array: 4 elements at 7 of 10");
}

TEST(Records, ComeBackAsTheyWere) {
  Buffer bytes;
  ASSERT_TRUE(EncodeImageRecord(testing::SampleImage(), &bytes).ok());
  const Result<ImageRecord> image = DecodeImageRecord(bytes);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  EXPECT_EQ(*image, testing::SampleImage());
  EXPECT_EQ(image->RegionBytes(), 368u);
  const std::vector<uint32_t> checksums = image->RegionChecksums();
  ASSERT_EQ(checksums.size(), image->regions.size());
  for (const Extent& extent : image->extents) {
    const bool is_whole = extent.bytes == image->regions[extent.region].bytes;
    EXPECT_EQ(checksums[extent.region] == extent.crc32c, is_whole) << extent.region;
  }

  bytes.clear();
  ASSERT_TRUE(EncodeLocalRecord(testing::SampleLocalRecord(), &bytes).ok());
  EXPECT_EQ(DecodeLocalRecord(bytes).value(), testing::SampleLocalRecord());
  bytes.clear();
  Encode(testing::SampleAttemptRecord(), &bytes);
  EXPECT_EQ(DecodeAttemptRecord(bytes).value(), testing::SampleAttemptRecord());
  bytes.clear();
  Encode(testing::SamplePartRecord(), &bytes);
  EXPECT_EQ(DecodePartRecord(bytes).value(), testing::SamplePartRecord());
  bytes.clear();
  Encode(testing::SampleVersionRecord(), &bytes);
  EXPECT_EQ(DecodeVersionRecord(bytes).value(), testing::SampleVersionRecord());
  bytes.clear();
  Encode(testing::SampleWholeVersionRecord(), &bytes);
  EXPECT_EQ(DecodeVersionRecord(bytes).value(), testing::SampleWholeVersionRecord());
  bytes.clear();
  EncodeImageIdentity(testing::SampleIdentity(), &bytes);
  EXPECT_EQ(DecodeImageIdentity(bytes).value(), testing::SampleIdentity());

  for (const Sample& sample : AllSamples()) {
    EXPECT_TRUE(sample.decode_and_encode_again(sample.bytes).ok()) << sample.name;
  }
}

TEST(Records, AppendToWhatIsInTheBuffer) {
  Buffer both;
  ASSERT_TRUE(EncodeImageRecord(testing::SampleImage(), &both).ok());
  const size_t image_bytes = both.size();
  ASSERT_TRUE(EncodePlacementTable(testing::SamplePlacementTable(), &both).ok());
  EXPECT_EQ(RecordBytes(both).value(), image_bytes);
  EXPECT_TRUE(DecodeImageRecord(ByteSpan(both).first(image_bytes)).ok());
  EXPECT_TRUE(DecodePlacementTable(ByteSpan(both).subspan(image_bytes)).ok());
}

TEST(Records, EveryFlippedBitIsCorrupt) {
  for (const Sample& sample : AllSamples()) {
    for (size_t at = 0; at < sample.bytes.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        Buffer damaged = sample.bytes;
        damaged[at] ^= static_cast<std::byte>(1 << bit);
        EXPECT_EQ(sample.decode_and_encode_again(damaged).code(), Code::kCorrupt)
            << sample.name << " byte " << at << " bit " << bit;
      }
    }
  }
}

TEST(Records, EveryTruncationAndAnyTailIsCorrupt) {
  for (const Sample& sample : AllSamples()) {
    for (size_t bytes = 0; bytes < sample.bytes.size(); ++bytes) {
      // A copy of that size, so that a sanitizer sees reads behind it.
      const Buffer cut(sample.bytes.begin(), sample.bytes.begin() + static_cast<ptrdiff_t>(bytes));
      EXPECT_EQ(sample.decode_and_encode_again(cut).code(), Code::kCorrupt) << sample.name << " cut to " << bytes;
    }
    Buffer longer = sample.bytes;
    longer.push_back(std::byte{0});
    EXPECT_EQ(sample.decode_and_encode_again(longer).code(), Code::kCorrupt) << sample.name;
  }
}

// Past the checksum: a payload that was damaged before it was enclosed. It may decode (a name with another letter is a
// name), but then to something valid that encodes to the same bytes; it never crashes and never reads outside.
TEST(Records, DamagedPayloadsWithRightChecksumsNeverCrash) {
  size_t accepted = 0;
  size_t refused = 0;
  for (const Sample& sample : AllSamples()) {
    const Buffer payload(sample.bytes.begin() + kEnvelopeHeaderBytes, sample.bytes.end() - 4);
    for (size_t at = 0; at < payload.size(); ++at) {
      for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff, -1, -2}) {
        Buffer damaged = payload;
        if (value >= 0) damaged[at] = static_cast<std::byte>(value);
        if (value == -1) damaged.erase(damaged.begin() + static_cast<ptrdiff_t>(at));
        if (value == -2) damaged.resize(at);
        const Buffer enclosed = testing::Enclose(sample.kind, damaged, testing::FormatVersionOf(sample.bytes));
        const Status status = sample.decode_and_encode_again(enclosed);
        EXPECT_TRUE(status.ok() || status.code() == Code::kCorrupt) << sample.name << ": " << status.ToString();
        ++(status.ok() ? accepted : refused);
      }
    }
  }
  EXPECT_GT(accepted, 100u);
  EXPECT_GT(refused, 1000u);
}

TEST(Records, OtherKindsAreRefusedByName) {
  Buffer bytes;
  Encode(testing::SamplePinRecord(), &bytes);
  const Status status = DecodeVersionRecord(bytes).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(status.message(), "version record: found a pin record");
}

TEST(Records, NewerFormatVersionsAreUnsupportedNotCorrupt) {
  for (const Sample& sample : AllSamples()) {
    const int version = FormatVersionNewest(sample.kind) + 1;
    Buffer newer = testing::WithFormatVersion(sample.bytes, static_cast<uint16_t>(version));
    const Status status = sample.decode_and_encode_again(newer);
    EXPECT_EQ(status.code(), Code::kUnsupported) << sample.name;
    EXPECT_NE(status.message().find(fmt::format("format version {}", version)), std::string::npos) << status.message();
    newer = testing::WithFormatVersion(sample.bytes, 0);
    EXPECT_FALSE(sample.decode_and_encode_again(newer).ok());
  }
}

// A part that does not belong to the version, or does not cover it, is damage.
TEST(Records, AVersionRecordHasItsOwnPartInsideOrNone) {
  const VersionRecord good = testing::SampleWholeVersionRecord();
  const auto refused = [](const VersionRecord& version) {
    Buffer bytes;
    Encode(version, &bytes);
    EXPECT_EQ(testing::FormatVersionOf(bytes), kFormatVersionOfWhole);
    const Status status = DecodeVersionRecord(bytes).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    return status.message();
  };
  VersionRecord version = good;
  ++version.parts[0].record_crc32c;
  EXPECT_NE(refused(version).find("is not the one that the version was made of"), std::string::npos);
  version = good;
  ++version.generation.take;
  EXPECT_NE(refused(version).find("is another version's"), std::string::npos);
  version = good;
  version.parts = {{0, 1, version.parts[0].record_crc32c, {{0, 1, 1}}}, {1, 1, 1, {{1, 1, 1}}}};
  EXPECT_NE(refused(version).find("does not cover the ranks"), std::string::npos);
  version = good;
  version.part_inside.back() ^= std::byte{1};
  EXPECT_NE(refused(version).find("is damaged"), std::string::npos);
}

TEST(Records, ForeignStoresAreNamed) {
  const Status status = CheckStoreId(testing::SampleStoreId(), StoreId{.high = 1, .low = 2}, "version record");
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.message().find("0123456789abcdeffedcba9876543210"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace kedge
