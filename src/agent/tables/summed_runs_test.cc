#include "agent/tables/summed_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/crc32c.h"
#include "base/random.h"

namespace kedge {
namespace {

constexpr uint64_t kBytes = 1000;

class SummedRunsTest : public ::testing::Test {
 protected:
  SummedRunsTest() { Random(1).Fill(data_.data(), data_.size()); }
  // Runs that end at `ends`.
  std::vector<SummedRun> Runs(const std::vector<uint64_t>& ends) const {
    std::vector<SummedRun> runs;
    uint64_t begin = 0;
    for (const uint64_t end : ends) {
      runs.push_back({begin, end - begin, crc32c::Compute(data_.data() + begin, end - begin)});
      begin = end;
    }
    return runs;
  }
  // A record of one chunk whose extents end there.
  ImageRecord Record(const std::vector<uint64_t>& ends) const {
    ImageRecord record;
    record.chunks = {Chunk{0, 0, kBytes}};
    for (const SummedRun& run : Runs(ends)) record.extents.push_back({0, run.begin, run.bytes, 0, run.begin, run.crc32c});
    return record;
  }

  std::array<std::byte, kBytes> data_;
};

TEST_F(SummedRunsTest, TheSameBytesAreTheSameHoweverTheyAreCut) {
  for (const std::vector<uint64_t>& captured : {std::vector<uint64_t>{1000}, {250, 500, 750, 1000}, {3, 400, 401, 1000}}) {
    for (const std::vector<uint64_t>& written : {std::vector<uint64_t>{1000}, {400, 800, 1000}, {999, 1000}}) {
      std::vector<SummedRun> runs = Runs(written);
      std::reverse(runs.begin(), runs.end());
      EXPECT_FALSE(FirstDifference(Runs(captured), runs).has_value());
    }
  }
  EXPECT_FALSE(FirstDifference({}, {}).has_value()) << "a chunk without bytes";
}

TEST_F(SummedRunsTest, ADifferenceIsPlacedBetweenCommonEnds) {
  const auto captured = Runs({250, 500, 750, 1000});
  data_[600] ^= std::byte{1};
  const auto difference = FirstDifference(captured, Runs({125, 500, 625, 750, 1000}));
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->begin, 500u);
  EXPECT_EQ(difference->end, 750u);
}

TEST_F(SummedRunsTest, WhatIsMissingTooMuchOrTwiceIsADifference) {
  const auto whole = Runs({500, 1000});
  EXPECT_TRUE(FirstDifference(whole, Runs({500})).has_value());
  EXPECT_TRUE(FirstDifference(Runs({500}), whole).has_value());
  EXPECT_TRUE(FirstDifference(whole, {}).has_value());
  EXPECT_TRUE(FirstDifference(whole, {whole[0], whole[0], whole[1]}).has_value());
  EXPECT_TRUE(FirstDifference(whole, {whole[1]}).has_value());
}

TEST_F(SummedRunsTest, ExtentsAreJoinedUpToPieces) {
  const auto captured = CapturedRuns(Record({100, 200, 400, 450, 800, 1000}), 200);
  ASSERT_TRUE(captured.ok()) << captured.status().ToString();
  ASSERT_EQ(captured->size(), 1u);
  EXPECT_EQ(captured->front(), Runs({200, 400, 800, 1000}));
}

TEST_F(SummedRunsTest, BytesInNoExtentOrInTwoAreRefused) {
  ImageRecord gap = Record({500, 600, 1000});
  gap.extents.erase(gap.extents.begin() + 1);
  EXPECT_EQ(CapturedRuns(gap, 200).status().code(), Code::kUnsupported);
  ImageRecord twice = Record({500, 1000});
  twice.extents[1].chunk_offset = 400;
  EXPECT_EQ(CapturedRuns(twice, 200).status().code(), Code::kUnsupported);
  ImageRecord elsewhere = Record({500});
  elsewhere.chunks[0].object = 1;
  EXPECT_TRUE(CapturedRuns(elsewhere, 200).ok()) << "its bytes do not pass here";
}

}  // namespace
}  // namespace kedge
