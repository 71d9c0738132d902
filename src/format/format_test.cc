// Names, numbers and image records at their bounds.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <set>

#include "base/random.h"
#include "format/image_record.h"
#include "format/name_encoding.h"
#include "format/store_records.h"
#include "format/testing/sample_records.h"

namespace kedge {
namespace {

TEST(NameEncoding, IsReadableSafeAndReversible) {
  EXPECT_EQ(EncodeName("heat_3d-v1.2"), "heat_3d-v1.2");
  EXPECT_EQ(EncodeName("a/b c"), "a%2Fb%20c");
  EXPECT_EQ(EncodeName("."), "%2E");
  EXPECT_EQ(EncodeName(".."), "%2E.");
  EXPECT_EQ(EncodeName("%41~"), "%2541%7E");
  EXPECT_EQ(EncodeName("\xc3\xbc*[x]$"), "%C3%BC%2A%5Bx%5D%24");
  for (int byte = 1; byte < 256; ++byte) {
    const std::string name = {static_cast<char>(byte), 'x', static_cast<char>(byte)};
    const std::string encoded = EncodeName(name);
    EXPECT_EQ(encoded.find('/'), std::string::npos);
    EXPECT_EQ(DecodeEncodedName(encoded), name) << byte;
  }
}

TEST(NameEncoding, LongNamesAreHashedAndStayApart) {
  EXPECT_EQ(EncodeName(std::string(200, 'a')), std::string(200, 'a'));
  std::set<std::string> encoded;
  for (size_t bytes = 201; bytes <= 1023; ++bytes) {
    const std::string component = EncodeName(std::string(bytes, 'a'));
    EXPECT_EQ(component.size(), 160u + 1 + 32);
    EXPECT_FALSE(DecodeEncodedName(component).has_value());
    encoded.insert(component);
  }
  EXPECT_EQ(encoded.size(), 823u);
  // The hash is part of the format: it must never change.
  EXPECT_EQ(EncodeName(std::string(201, 'a')).substr(160, 1), "~");
  const std::string slashes = EncodeName(std::string(300, '/'));
  EXPECT_EQ(slashes.substr(0, 159), EncodeName(std::string(53, '/'))) << "no broken %XX";
}

TEST(NameEncoding, OtherSpellingsAreRefused) {
  for (const char* component : {"", "%", "%2", "%2f", "%41", "a~b", ".x", "a/b", "%GG"}) {
    EXPECT_FALSE(DecodeEncodedName(component).has_value()) << component;
  }
}

TEST(Wire, NumbersComeBackAndOnlyInTheirShortestForm) {
  Buffer bytes;
  const std::vector<uint64_t> numbers = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, uint64_t{1} << 63, UINT64_MAX};
  {
    Encoder encoder(bytes);
    for (const uint64_t number : numbers) {
      encoder.Varint(number);
      encoder.SignedVarint(static_cast<int64_t>(number));
    }
  }
  Decoder decoder(bytes);
  for (const uint64_t number : numbers) {
    EXPECT_EQ(decoder.Varint(), number);
    EXPECT_EQ(decoder.SignedVarint(), static_cast<int64_t>(number));
  }
  EXPECT_TRUE(decoder.Finish("numbers").ok());
  for (const std::vector<int>& bad :
       std::vector<std::vector<int>>{{0x80, 0x00}, {0x80}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}}) {
    Buffer raw;
    for (const int byte : bad) raw.push_back(static_cast<std::byte>(byte));
    Decoder refusing(raw);
    refusing.Varint();
    EXPECT_FALSE(refusing.ok());
  }
}

TEST(Wire, CountsThatTheBytesCannotHoldAreRefused) {
  Buffer bytes;
  {
    Encoder encoder(bytes);
    encoder.Varint(1'000'000'000);
    encoder.U32(0);
  }
  Decoder decoder(bytes);
  EXPECT_EQ(decoder.Count(1), 0u);
  EXPECT_EQ(decoder.status("list").code(), Code::kCorrupt);
  EXPECT_EQ(decoder.U64(), 0u) << "the error stays";
}

TEST(RankRuns, CoverBlocksAndRoundRobin) {
  EXPECT_EQ(RunsOf({4, 5, 6, 7}), (std::vector<RankRun>{{4, 1, 4}}));
  EXPECT_EQ(RunsOf({1, 5, 9}), (std::vector<RankRun>{{1, 4, 3}}));
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    std::set<uint32_t> ranks;
    for (int i = 0; i < 20; ++i) ranks.insert(static_cast<uint32_t>(random.Below(60)));
    const std::vector<RankRun> runs = RunsOf({ranks.begin(), ranks.end()});
    uint64_t total = 0;
    for (const RankRun& run : runs) total += run.count;
    EXPECT_EQ(total, ranks.size());
    for (uint32_t rank = 0; rank < 64; ++rank) EXPECT_EQ(Contains(runs, rank), ranks.contains(rank));
  }
}

TEST(VersionRecords, MustCoverEveryRankOnce) {
  const auto decode = [](const std::vector<PartEntry>& parts) {
    Buffer bytes;
    Encode(VersionRecord{testing::SampleIdentity().generation, 4, parts, 0, 0, {}}, &bytes);
    return DecodeVersionRecord(bytes).status();
  };
  EXPECT_TRUE(decode({{0, 4, 0, {{0, 1, 4}}}}).ok());
  EXPECT_TRUE(decode({{1, 2, 0, {{1, 2, 2}}}, {0, 2, 0, {{0, 2, 2}}}}).ok());
  EXPECT_FALSE(decode({{0, 3, 0, {{0, 1, 3}}}}).ok()) << "rank 3 is missing";
  EXPECT_FALSE(decode({{0, 3, 0, {{0, 1, 3}}}, {2, 1, 0, {{2, 1, 1}}}}).ok()) << "rank 2 twice";
  EXPECT_FALSE(decode({{0, 4, 0, {{0, 2, 4}}}}).ok()) << "beyond the last";
  EXPECT_FALSE(decode({}).ok());
}

TEST(ImageRecords, BrokenOnesAreNotWritten) {
  const auto refuses = [](const std::function<void(ImageRecord&)>& breakage) {
    ImageRecord image = testing::SampleImage();
    breakage(image);
    Buffer bytes = {std::byte{1}};
    const Status status = EncodeImageRecord(image, &bytes);
    return status.code() == Code::kInternal && bytes.size() == 1;
  };
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.extents[0].bytes -= 1; }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.extents[1].region_offset = 1; }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.extents.pop_back(); }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { std::swap(image.extents[1], image.extents[2]); }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.extents[1].chunk_offset = 200; }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.extents[1].chunk = 9; }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.chunks[0].object = 2; }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.regions[0].shape = {4, 2}; }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.regions[0].global_shape.pop_back(); }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.regions[0].global_offset[0] = 10; })) << "outside its array";
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.regions[0].global_offset[0] = INT64_MAX; }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.regions[0].halo = {1}; }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.regions[0].halo = {2, 0}; })) << "wider than the region";
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.regions[0].halo = {INT64_MAX, 0}; }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.identity.rank = 4; }));
  EXPECT_TRUE(refuses([](ImageRecord& image) { image.annotations[0].key.clear(); }));
}

TEST(ImageRecords, AHaloComesBack) {
  ImageRecord image = testing::SampleImage();
  image.regions[0].halo = {1, 0};
  image.regions[0].global_offset = {11, 0};  // of what is not halo
  Buffer bytes;
  ASSERT_TRUE(EncodeImageRecord(image, &bytes).ok());
  EXPECT_EQ(DecodeImageRecord(bytes).value(), image);
}

// 10,000 regions in one chunk: compact, and exact. The times are printed, not asserted.
TEST(ImageRecords, ManyRegions) {
  ImageRecord image;
  image.identity = testing::SampleIdentity();
  constexpr uint32_t kRegions = 10000;
  for (uint32_t i = 0; i < kRegions; ++i) {
    Region& region = image.regions.emplace_back();
    region.id = static_cast<int32_t>(i);
    region.type = ElementType::kFloat64;
    region.element_bytes = 8;
    region.bytes = 800;
    image.extents.push_back({i, 0, 800, 0, uint64_t{800} * i, i});
  }
  image.chunks = {{0, 0, 800 * kRegions}};
  Buffer bytes;
  ASSERT_TRUE(EncodeImageRecord(image, &bytes).ok());
  EXPECT_LT(bytes.size(), 25u * kRegions);
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  bytes.clear();
  ASSERT_TRUE(EncodeImageRecord(image, &bytes).ok());
  const auto encoded = Clock::now();
  const Result<ImageRecord> decoded = DecodeImageRecord(bytes);
  const auto end = Clock::now();
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(*decoded == image);

  ImageRecord small = testing::SampleImage();
  small.regions.resize(3);
  small.extents.pop_back();
  Buffer small_bytes;
  constexpr int kRounds = 10000;
  const auto small_begin = Clock::now();
  for (int i = 0; i < kRounds; ++i) {
    small_bytes.clear();
    ASSERT_TRUE(EncodeImageRecord(small, &small_bytes).ok());
  }
  const double small_us = std::chrono::duration<double, std::micro>(Clock::now() - small_begin).count() / kRounds;
  std::printf("10,000 regions: %zu bytes, encoded in %.2f ms, decoded in %.2f ms; 3 regions: %.2f us\n", bytes.size(),
              std::chrono::duration<double, std::milli>(encoded - begin).count(),
              std::chrono::duration<double, std::milli>(end - encoded).count(), small_us);
}

}  // namespace
}  // namespace kedge
