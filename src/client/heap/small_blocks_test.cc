// Small blocks: that none overlaps another, and that all are found again in a copy of the area.
#include "client/heap/small_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/random.h"

namespace kedge::client {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRun = uint64_t{64} << 10;

// An area at a multiple of 64 KiB.
class Area {
 public:
  explicit Area(uint64_t bytes_max) : bytes_max_(bytes_max), memory_(bytes_max + kRun) {
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(memory_.data()) + kRun - 1) / kRun * kRun;
    data_ = reinterpret_cast<std::byte*>(begin);
  }
  SmallBlocks::Memory Owner() {
    return {[this](uint64_t bytes) {
              if (bytes > bytes_max_) return Status(Code::kNoSpace, "full");
              if (bytes < bytes_) std::memset(data_ + bytes, 0, bytes_ - bytes);
              bytes_ = bytes;
              return Status::Ok();
            },
            [this](uint64_t offset, uint64_t bytes) {
              std::memset(data_ + offset, 0, bytes);
              cleared_ += bytes;
            }};
  }
  std::byte* data() { return data_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t cleared() const { return cleared_; }

 private:
  const uint64_t bytes_max_;
  std::vector<std::byte> memory_;
  std::byte* data_;
  uint64_t bytes_ = 0, cleared_ = 0;
};

TEST(SmallBlocksTest, ASlotBeginsWhereItsSizeAllows) {
  size_t before = 0;
  for (size_t bytes = 0; bytes <= kSmallBytesMax; ++bytes) {
    const size_t slot = SlotBytes(bytes);
    ASSERT_GE(slot, bytes);
    ASSERT_GE(slot, before);
    ASSERT_LE(slot, std::max<size_t>(32, bytes + std::max<size_t>(15, bytes / 4)));
    ASSERT_EQ(SlotBytes(slot), slot);
    const size_t alignment = std::max<size_t>(16, bytes & (~bytes + 1));
    ASSERT_EQ(slot % alignment, 0u) << bytes;
    before = slot;
  }
  EXPECT_EQ(before, kSmallBytesMax);
}

TEST(SmallBlocksTest, NothingOverlapsAndACopyOfTheAreaGoesOn) {
  Random random(11);
  Area area(uint64_t{64} << 20), copy(uint64_t{64} << 20);
  SmallBlocks blocks(area.data(), area.Owner());
  struct Block {
    size_t bytes;
    int value;
  };
  std::map<std::byte*, Block> made;
  const auto remove = [&](SmallBlocks* from, std::map<std::byte*, Block>::iterator block) {
    const std::vector<std::byte> expected(block->second.bytes, std::byte(block->second.value));
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), block->first));
    ASSERT_TRUE(from->Free(block->first).ok());
    made.erase(block);
  };
  for (int step = 0; step < 10000; ++step) {
    if (random.Below(5) < 2 && !made.empty()) {
      auto block = made.lower_bound(area.data() + random.Below(area.bytes()));
      remove(&blocks, block == made.end() ? made.begin() : block);
      continue;
    }
    const size_t bytes = random.Below(8) == 0 ? random.Below(kSmallBytesMax + 1) : random.Below(300);
    const auto block = blocks.Allocate(bytes);
    ASSERT_TRUE(block.ok()) << block.status().ToString();
    const int value = static_cast<int>(random.Below(256));
    std::memset(*block, value, bytes);
    const bool is_new = made.emplace(static_cast<std::byte*>(*block), Block{bytes, value}).second;
    ASSERT_TRUE(is_new);
    ASSERT_GE(blocks.BytesOf(*block).value(), bytes);
  }
  EXPECT_EQ(blocks.blocks(), made.size());
  EXPECT_GT(blocks.area_bytes(), 10 * kRun);

  // Addresses differ in the test alone.
  ASSERT_TRUE(copy.Owner().resize(area.bytes()).ok());
  std::memcpy(copy.data(), area.data(), area.bytes());
  SmallBlocks again(copy.data(), copy.Owner());
  ASSERT_TRUE(again.Adopt(copy.bytes()).ok());
  EXPECT_EQ(again.blocks(), made.size());
  std::map<std::byte*, Block> moved;
  for (const auto& [address, block] : made) moved[copy.data() + (address - area.data())] = block;
  made = std::move(moved);
  for (int step = 0; step < 2000; ++step) {
    const auto block = again.Allocate(random.Below(300));
    ASSERT_TRUE(block.ok());
    ASSERT_FALSE(made.contains(static_cast<std::byte*>(*block)));
    made[static_cast<std::byte*>(*block)] = {0, 0};
  }
  while (!made.empty()) remove(&again, made.begin());
  EXPECT_EQ(again.blocks(), 0u);
  EXPECT_GT(copy.cleared(), 0u) << "freed runs have gone back";
}

TEST(SmallBlocksTest, EachGroupOfRunsHasItsDescriptors) {
  Area area(uint64_t{32} << 20);
  SmallBlocks blocks(area.data(), area.Owner());
  std::set<std::byte*> made;
  for (int i = 0; i < 1200; ++i) made.insert(static_cast<std::byte*>(blocks.Allocate(kSmallBytesMax).value()));
  EXPECT_EQ(made.size(), 1200u);
  EXPECT_GT(blocks.area_bytes(), 2 * 128 * kRun);
  for (const std::byte* block : made) EXPECT_NE(static_cast<uint64_t>(block - area.data()) / kRun % 128, 0u);
  SmallBlocks again(area.data(), area.Owner());
  ASSERT_TRUE(again.Adopt(area.bytes()).ok());
  EXPECT_EQ(again.blocks(), 1200u);
  for (std::byte* block : made) EXPECT_TRUE(again.Free(block).ok());
  EXPECT_EQ(again.blocks(), 0u);
  EXPECT_LT(again.area_bytes(), 128 * kRun);
}

TEST(SmallBlocksTest, WhatIsNoBlockIsRefused) {
  Area area(uint64_t{4} << 20);
  SmallBlocks blocks(area.data(), area.Owner());
  auto* const block = static_cast<std::byte*>(blocks.Allocate(100).value());
  EXPECT_EQ(blocks.Free(block + 16).code(), Code::kInvalidArgument);
  EXPECT_EQ(blocks.Free(area.data()).code(), Code::kInvalidArgument) << "the descriptors";
  EXPECT_EQ(blocks.Free(block + 112).code(), Code::kInvalidArgument) << "a free slot";
  EXPECT_EQ(blocks.Free(&area).code(), Code::kInvalidArgument) << "elsewhere";
  ASSERT_TRUE(blocks.Free(block).ok());
  EXPECT_EQ(blocks.Free(block).code(), Code::kInvalidArgument) << "twice";
  EXPECT_EQ(blocks.BytesOf(block).status().code(), Code::kInvalidArgument);
}

TEST(SmallBlocksTest, AFullAreaStaysUsable) {
  Area area(3 * kRun);
  SmallBlocks blocks(area.data(), area.Owner());
  std::vector<void*> made;
  for (;;) {
    const auto block = blocks.Allocate(kSmallBytesMax);
    if (!block.ok()) {
      EXPECT_EQ(block.status().code(), Code::kNoSpace);
      break;
    }
    made.push_back(*block);
  }
  EXPECT_EQ(made.size(), 8u) << "in two runs behind the descriptors";
  ASSERT_TRUE(blocks.Free(made.front()).ok());
  EXPECT_EQ(blocks.Allocate(kSmallBytesMax).value(), made.front());
}

TEST(SmallBlocksTest, OverwrittenNotesAreFound) {
  Area area(uint64_t{4} << 20);
  SmallBlocks blocks(area.data(), area.Owner());
  void* const block = blocks.Allocate(64).value();
  // A program that writes beyond its blocks.
  std::memset(area.data(), 0x5a, kRun);
  EXPECT_EQ(blocks.Free(block).code(), Code::kCorrupt);
  EXPECT_EQ(blocks.Allocate(64).status().code(), Code::kCorrupt);
  EXPECT_THAT(SmallBlocks(area.data(), area.Owner()).Adopt(area.bytes()).message(), HasSubstr("overwritten"));
  EXPECT_EQ(SmallBlocks(area.data(), area.Owner()).Adopt(kRun + 1).code(), Code::kCorrupt);
}

}  // namespace
}  // namespace kedge::client
