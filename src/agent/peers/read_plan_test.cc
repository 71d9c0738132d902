// Reads go out in the order in which they are wanted, as many as there are buffers, however many make one block.
#include "agent/peers/read_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace kedge {
namespace {

constexpr size_t kBuffers = 24;
constexpr uint32_t kBlockBytes = 4096;

// As SetSource goes about it, with a network that answers at once: the blocks of one row, one of each member.
class Reader {
 public:
  explicit Reader(uint32_t members) : members_(members) {}
  void Expect(uint64_t row) {
    for (const ReadPlan::Entry& entry : RowOf(row)) plan_.Add(entry);
    Begin();
  }
  // Reads the row; the blocks of it that had not gone out before.
  size_t Read(uint64_t row) {
    held_ = 0;
    size_t late = 0;
    const std::vector<ReadPlan::Entry> now = RowOf(row);
    const bool keep = now.size() <= kBuffers;
    for (const ReadPlan::Entry& entry : now) late += IsUnderWay(entry) ? 0 : 1;
    plan_.Want(now, [this](const ReadPlan::Entry& entry) { return IsUnderWay(entry); });
    Begin();
    for (const ReadPlan::Entry& entry : now) {
      EXPECT_EQ(under_way_.erase(entry.block), 1u) << "row " << row << ", member " << entry.block.member;
      held_ += keep ? 1 : 0;
      Begin();
    }
    return late;
  }
  size_t under_way() const { return under_way_.size(); }
  size_t gone_out() const { return gone_out_; }

 private:
  std::vector<ReadPlan::Entry> RowOf(uint64_t row) const {
    std::vector<ReadPlan::Entry> entries;
    for (uint32_t member = 0; member < members_; ++member) entries.push_back({{member, false, row * kBlockBytes}, kBlockBytes});
    return entries;
  }
  bool IsUnderWay(const ReadPlan::Entry& entry) const { return under_way_.contains(entry.block); }
  void Begin() {
    while (const auto entry = plan_.Next(held_ + under_way_.size())) {
      EXPECT_TRUE(under_way_.insert(entry->block).second);
      ++gone_out_;
      EXPECT_LE(held_ + under_way_.size(), kBuffers);
    }
  }

  const uint32_t members_;
  ReadPlan plan_{kBuffers};
  std::set<redundancy::BlockRef> under_way_;
  size_t held_ = 0;
  size_t gone_out_ = 0;
};

class ReadPlanTest : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Members, ReadPlanTest, ::testing::Values(1, 3, 8, 9, 15, 23, 24, 25, 100));

TEST_P(ReadPlanTest, ReadsAheadAsMuchAsThereAreBuffersAndNothingTwice) {
  const uint32_t members = GetParam();
  constexpr uint64_t kRows = 20, kAhead = 3;
  Reader reader(members);
  uint64_t expected = 0;
  for (uint64_t row = 0; row < kRows; ++row) {
    for (; expected < kRows && expected <= row + kAhead; ++expected) reader.Expect(expected);
    const size_t late = reader.Read(row);
    const size_t ahead_max = members > kBuffers ? kBuffers : kBuffers - members;
    const size_t left = (kRows - 1 - row) * members;
    const size_t late_max = row == 0 ? members : members - std::min<size_t>(members, ahead_max);
    EXPECT_LE(late, late_max) << "row " << row;
    const size_t ahead_min = row + kAhead < kRows ? std::min<size_t>({ahead_max, left, (kAhead - 1) * members}) : 0;
    EXPECT_GE(reader.under_way(), ahead_min) << "row " << row;
  }
  EXPECT_EQ(reader.under_way(), 0u);
  EXPECT_EQ(reader.gone_out(), kRows * members);
}

TEST(ReadPlanTest, WhatWasPassedOverIsForgotten) {
  ReadPlan plan(2);
  const auto block = [](uint32_t member, uint64_t offset) { return ReadPlan::Entry{{member, false, offset}, 8}; };
  for (const uint64_t offset : {0, 8, 16}) {
    plan.Add(block(1, offset));
    plan.Add(block(2, offset));
  }
  // Instead of member 2's block another's is read, of the second row.
  const std::vector<ReadPlan::Entry> now = {block(1, 8), block(3, 8)};
  plan.Want(now, [](const ReadPlan::Entry&) { return false; });
  EXPECT_EQ(plan.Next(0), block(1, 8));
  EXPECT_EQ(plan.Next(1), block(3, 8));
  EXPECT_EQ(plan.Next(2), std::nullopt) << "no buffer";
  plan.Remove(block(2, 8));
  EXPECT_EQ(plan.Next(0), block(1, 16));
  EXPECT_EQ(plan.Next(0), block(2, 16));
  EXPECT_EQ(plan.Next(0), std::nullopt);
}

}  // namespace
}  // namespace kedge
