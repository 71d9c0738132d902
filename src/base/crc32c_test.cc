#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/staged_copy.h"
#include "base/testing/upper_halves.h"
#include "base/vector_registers.h"

namespace kedge::crc32c {
namespace {

// Bit by bit, from the definition: the reference for everything else here.
uint32_t Reference(const std::vector<unsigned char>& data) {
  uint32_t crc = ~0u;
  for (const unsigned char byte : data) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
  }
  return ~crc;
}

std::vector<unsigned char> RandomBytes(uint64_t seed, size_t bytes) {
  std::vector<unsigned char> data(bytes);
  Random(seed).Fill(data.data(), bytes);
  return data;
}

TEST(Crc32c, MatchesPublishedVectors) {
  // RFC 3720 section B.4, and the usual check value.
  EXPECT_EQ(Compute("123456789", 9), 0xE3069283u);
  const std::vector<unsigned char> zeros(32, 0);
  const std::vector<unsigned char> ones(32, 0xFF);
  std::vector<unsigned char> ascending(32);
  for (size_t i = 0; i < 32; ++i) ascending[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(Compute(zeros.data(), 32), 0x8A9136AAu);
  EXPECT_EQ(Compute(ones.data(), 32), 0x62A8AB43u);
  EXPECT_EQ(Compute(ascending.data(), 32), 0x46DD794Eu);
  EXPECT_EQ(Compute(nullptr, 0), 0u);
}

TEST(Crc32c, ExtendsAcrossAnySplit) {
  const auto data = RandomBytes(1, 1000);
  const uint32_t whole = Reference(data);
  EXPECT_EQ(Compute(data.data(), data.size()), whole);
  for (size_t split = 0; split <= data.size(); split += 37) {
    EXPECT_EQ(Extend(Compute(data.data(), split), data.data() + split, data.size() - split), whole) << split;
  }
}

TEST(Crc32c, LeavesTheUpperHalvesOfVectorRegistersToTheCaller) {
  ReleaseUpperHalves();
  if (!AreUpperHalvesInUse().has_value()) GTEST_SKIP() << "this processor does not tell";
  for (const size_t bytes : {1ul, 100ul, 255ul, 256ul, 4096ul, 100000ul, 4ul << 20}) {
    const auto data = RandomBytes(3, bytes);
    std::vector<unsigned char> copy(bytes);
    ASSERT_NE(AreUpperHalvesInUse(), true) << bytes;
    Compute(data.data(), bytes);
    EXPECT_EQ(AreUpperHalvesInUse(), false) << "after a checksum of " << bytes;
    CopyAndChecksum(copy.data(), data.data(), bytes);
    EXPECT_EQ(AreUpperHalvesInUse(), false) << "after a copy of " << bytes;
  }
}

TEST(Crc32c, CombinesChecksumsOfParts) {
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    const auto data = RandomBytes(random.Next(), random.Below(20000));
    const size_t split = random.Below(data.size() + 1);
    const uint32_t a = Compute(data.data(), split);
    const uint32_t b = Compute(data.data() + split, data.size() - split);
    ASSERT_EQ(Combine(a, b, data.size() - split), Compute(data.data(), data.size())) << round;
  }
}

TEST(Crc32c, CombinesOverMoreThanFourGigabytes) {
  // Zeros can be appended without holding them: combining k blocks one by one equals combining them at once.
  const std::vector<unsigned char> block(1 << 20, 0);
  const uint32_t crc_block = Compute(block.data(), block.size());
  uint32_t crc_zeros = 0;
  for (int i = 0; i < 5000; ++i) crc_zeros = Combine(crc_zeros, crc_block, block.size());
  const uint32_t start = Compute("kedge", 5);
  uint32_t one_by_one = start;
  for (int i = 0; i < 5000; ++i) one_by_one = Combine(one_by_one, crc_block, block.size());
  EXPECT_EQ(Combine(start, crc_zeros, uint64_t{5000} << 20), one_by_one);
}

TEST(Crc32c, CopiesAndChecksumsAnyLengthAndAlignment) {
  Random random(3);
  const auto source = RandomBytes(4, 1'500'000);
  std::vector<unsigned char> target(source.size() + 64);
  for (int round = 0; round < 300; ++round) {
    size_t bytes = static_cast<size_t>(round);
    if (round >= 100) bytes = random.Below(300'000);
    if (round >= 200) bytes = 262'144 - 50 + random.Below(1'000'000);  // around where copies begin to stream

    const size_t from = random.Below(source.size() - bytes);
    const size_t to = random.Below(64);
    std::fill(target.begin(), target.end(), static_cast<unsigned char>(0xAB));
    const uint32_t crc = CopyAndChecksum(target.data() + to, source.data() + from, bytes, 77);
    ASSERT_EQ(crc, Extend(77, source.data() + from, bytes)) << bytes;
    ASSERT_EQ(std::memcmp(target.data() + to, source.data() + from, bytes), 0) << bytes;
    ASSERT_EQ(target[to + bytes], 0xAB) << "wrote past the end";
    ASSERT_TRUE(to == 0 || target[to - 1] == 0xAB) << "wrote before the start";
  }
}

TEST(Crc32c, CopiesPartsOfALargeCopyOfAnyLengthAndAlignment) {
  Random random(6);
  const auto source = RandomBytes(7, 1'000'000);
  for (int round = 0; round < 50; ++round) {
    const size_t to = random.Below(64);
    std::vector<unsigned char> target(source.size() + 64, static_cast<unsigned char>(0xAB));
    uint32_t crc = 0;
    for (size_t at = 0; at < source.size();) {
      const size_t part = std::min<size_t>(1 + random.Below(random.Chance(0.5) ? 100 : 100'000), source.size() - at);
      crc = CopyAndChecksum(target.data() + to + at, source.data() + at, part, crc, source.size());
      ASSERT_EQ(target[to + at + part], 0xAB) << "wrote past the end";
      at += part;
    }
    ASSERT_EQ(crc, Compute(source.data(), source.size()));
    ASSERT_EQ(std::memcmp(target.data() + to, source.data(), source.size()), 0);
  }
}

// Large copies go one of two ways, by what is faster there.
TEST(Crc32c, CopiesTheSameInBothWays) {
  for (const size_t bytes : {size_t{16} << 10, size_t{1} << 20}) {
    for (const size_t from : {0u, 1u, 13u, 64u}) {
      const auto source = RandomBytes(11, bytes + 64);
      for (const bool is_staged : {false, true}) {
        std::vector<unsigned char> target(bytes + 96, 0xAB);
        unsigned char* const to = target.data() + (0 - reinterpret_cast<uintptr_t>(target.data())) % 32;
        ASSERT_EQ(CopyInOneWay(is_staged, to, source.data() + from, bytes, 77), Extend(77, source.data() + from, bytes));
        ASSERT_EQ(std::memcmp(to, source.data() + from, bytes), 0);
        ASSERT_EQ(to[bytes], 0xAB) << "wrote past the end";
      }
    }
  }
}

// More than the first ones, which go both ways.
TEST(Crc32c, CopiesManyLargePieces) {
  const auto source = RandomBytes(12, 3 << 20);
  const uint32_t sum = Extend(0, source.data(), source.size());
  for (int round = 0; round < 12; ++round) {
    std::vector<unsigned char> target(source.size());
    ASSERT_EQ(CopyAndChecksum(target.data(), source.data(), source.size(), 0), sum);
    ASSERT_EQ(target, source);
  }
}

TEST(Crc32c, CopiesPastTheCacheAnyLengthAndAlignment) {
  Random random(8);
  const auto source = RandomBytes(9, 200'000);
  for (int round = 0; round < 200; ++round) {
    const size_t bytes = random.Below(random.Chance(0.5) ? 2'000 : 150'000);
    const size_t from = random.Below(source.size() - bytes), to = random.Below(64);
    std::vector<unsigned char> target(bytes + 128, 0xAB);
    CopyPastCache(target.data() + to, source.data() + from, bytes);
    OrderCopiesPastCache();
    ASSERT_EQ(std::memcmp(target.data() + to, source.data() + from, bytes), 0) << bytes;
    ASSERT_EQ(target[to + bytes], 0xAB) << "wrote past the end";
    ASSERT_TRUE(to == 0 || target[to - 1] == 0xAB) << "wrote before the start";
  }
}

TEST(Crc32c, ChecksumsTheBytesThatArriveWhenTheSourceChanges) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "this is a race on purpose, which ThreadSanitizer would report";
#endif
  std::vector<unsigned char> source(1 << 20, 0);
  std::vector<unsigned char> target(source.size());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (unsigned char value = 1; !stop; ++value) {
      for (size_t i = 0; i < source.size(); i += 64)
        reinterpret_cast<std::atomic<unsigned char>&>(source[i]).store(value, std::memory_order_relaxed);
    }
  });
  for (int round = 0; round < 200; ++round) {
    const uint32_t crc = CopyAndChecksum(target.data(), source.data(), source.size());
    ASSERT_EQ(crc, Compute(target.data(), target.size())) << "round " << round;
  }
  stop = true;
  writer.join();
}

TEST(Crc32c, DetectsEverySingleFlippedBit) {
  auto data = RandomBytes(5, 512);
  const uint32_t good = Compute(data.data(), data.size());
  for (size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
    ASSERT_NE(Compute(data.data(), data.size()), good) << bit;
    data[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
  }
}

}  // namespace
}  // namespace kedge::crc32c
