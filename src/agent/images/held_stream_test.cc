#include "agent/images/held_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "agent/tables/held_set.h"
#include "agent/tables/run_folder.h"
#include "base/random.h"
#include "os/files/files.h"
#include "redundancy/block_table.h"

namespace kedge {
namespace {

// Two tiers: one that this process has mapped, one of files.
class HeldStreamTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSlotBytes = 64 << 10;
  static constexpr uint32_t kBlockBytes = 4096;
  static Buffer RandomBytes(size_t bytes, uint64_t seed) {
    Buffer buffer(bytes);
    Random(seed).Fill(buffer.data(), bytes);
    return buffer;
  }
  void SetUp() override {
    folder_ = os::JoinPath("/dev/shm", "kedge-test-" + Id128::Generate().ToHex());
    ASSERT_TRUE(os::MakeFolders(fs(), folder_).ok());
    const std::string pool = os::JoinPath(folder_, "memory/pool"), directory = os::JoinPath(folder_, "directory");
    auto memory = CreateMemoryTier(fs(), {"memory", pool, TierKind::kMemory, pool, kSlotBytes, 4});
    auto files = CreateDirectoryTier(fs(), {"files", directory, TierKind::kDirectory, directory, kSlotBytes, 4});
    ASSERT_TRUE(memory.ok() && files.ok());
    memory_.tier = std::move(memory->tier);
    files_.tier = std::move(files->tier);
  }
  void TearDown() override { EXPECT_TRUE(os::RemoveTree(fs(), folder_).ok()); }

  // Neighbours of unequal lengths, none of them a whole number of blocks, in both tiers.
  std::vector<OwnRange> Ranges() {
    for (uint32_t slot = 0; slot < 4; ++slot) {
      EXPECT_TRUE(memory_.tier->ReserveAll(slot).ok());
      EXPECT_TRUE(files_.tier->ReserveAll(slot).ok());
    }
    return {{&memory_, 2, 0, 100, 9999}, {&files_, 1, 0, 8192, 20001}, {&files_, 3, 0, 0, 5}, {&memory_, 0, 0, 7, 30000}};
  }

  std::string folder_;
  TierUnit memory_, files_;
};

TEST_F(HeldStreamTest, WhatIsWrittenIsReadAndSummedInEveryKindOfTier) {
  const HeldStream stream = HeldStream::Of(Ranges());
  const Buffer bytes = RandomBytes(stream.bytes(), 1);
  redundancy::BlockTableBuilder written(bytes.size(), kBlockBytes), expected(bytes.size(), kBlockBytes);
  expected.Add(bytes);
  Random random(2);
  while (written.added() < bytes.size()) {
    const uint64_t run = std::min(1 + random.Below(17000), bytes.size() - written.added());
    ASSERT_TRUE(stream.WriteTo(&written, ByteSpan(bytes).subspan(written.added(), run)).ok());
  }
  EXPECT_EQ(written.Finish(), expected.Finish());
  Buffer read(bytes.size());
  ASSERT_TRUE(stream.Read(0, read.size(), read.data()).ok());
  EXPECT_TRUE(read == bytes);
  // From the middle of one range to the middle of another.
  ASSERT_TRUE(stream.Read(5000, 30000, read.data()).ok());
  EXPECT_TRUE(std::equal(read.begin(), read.begin() + 30000, bytes.begin() + 5000));
}

TEST_F(HeldStreamTest, NothingIsWrittenOutsideItsRanges) {
  const std::vector<OwnRange> ranges = Ranges();
  const Buffer around(kSlotBytes, std::byte{0x5a});
  for (const OwnRange& range : ranges) ASSERT_TRUE(range.unit->tier->Write(range.slot, 0, around.data(), around.size()).ok());
  const HeldStream stream = HeldStream::Of(ranges);
  redundancy::BlockTableBuilder table(stream.bytes(), kBlockBytes);
  ASSERT_TRUE(stream.WriteTo(&table, Buffer(stream.bytes(), std::byte{1})).ok());
  for (const OwnRange& range : ranges) {
    Buffer slot(kSlotBytes);
    ASSERT_TRUE(range.unit->tier->Read(range.slot, 0, slot.data(), slot.size()).ok());
    for (uint64_t at = 0; at < kSlotBytes; ++at) {
      const bool is_inside = at >= range.offset && at < range.offset + range.bytes;
      ASSERT_EQ(slot[at], is_inside ? std::byte{1} : std::byte{0x5a}) << "slot " << range.slot << " at " << at;
    }
  }
}

TEST_F(HeldStreamTest, AGapReadsAsZerosAndTakesNoBytes) {
  const std::vector<OwnRange> ranges = Ranges();
  HeldStream stream;
  stream.AddRange(0, ranges[0]);
  stream.AddRange(20000, ranges[1]);
  const Buffer bytes = RandomBytes(40001, 3);
  ASSERT_TRUE(stream.Write(0, 9999, bytes.data()).ok());
  ASSERT_TRUE(stream.Write(20000, 20001, bytes.data() + 20000).ok());
  Buffer read(stream.bytes(), std::byte{0xff});
  ASSERT_TRUE(stream.Read(0, read.size(), read.data()).ok());
  for (size_t at = 0; at < read.size(); ++at) {
    ASSERT_EQ(read[at], at >= 9999 && at < 20000 ? std::byte{0} : bytes[at]) << at;
  }
  EXPECT_EQ(stream.Write(9998, 2, bytes.data()).code(), Code::kInvalidArgument);
  redundancy::BlockTableBuilder table(stream.bytes(), kBlockBytes);
  EXPECT_EQ(stream.WriteTo(&table, bytes).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kedge
