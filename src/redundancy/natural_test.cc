#include "redundancy/natural.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "reduce/fingerprint.h"
#include "redundancy/block_table.h"
#include "redundancy/geometry.h"

namespace kedge::redundancy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr uint32_t kStep = kBlockBytesMin;
constexpr uint32_t kBlock = 2 * kStep;

// A stream of blocks that each hold one letter; what is behind the last is the record.
Buffer StreamOf(const std::string& letters) {
  Buffer stream;
  for (const char letter : letters) stream.insert(stream.end(), kBlock, static_cast<std::byte>(letter));
  stream.insert(stream.end(), 100, std::byte{'~'});
  return stream;
}

SetMember MemberOf(uint32_t rank, const Buffer& stream) {
  SetMember member{"n" + std::to_string(rank), "d" + std::to_string(rank), rank, {}, Buffer(100, std::byte{'~'}), {kBlock, {}}};
  BlockTableBuilder table(stream.size(), kStep);
  table.Add(stream);
  member.blocks = table.Finish();
  for (uint64_t at = 0; at + kBlock <= stream.size(); at += kBlock)
    member.natural.blocks.push_back({at, reduce::FingerprintOf(ByteSpan(stream).subspan(at, kBlock))});
  return member;
}

class Natural : public ::testing::Test {
 protected:
  void Make(const std::vector<std::string>& letters) {
    for (const std::string& of : letters) {
      streams_.push_back(StreamOf(of));
      set_.members.push_back(MemberOf(static_cast<uint32_t>(set_.members.size()), streams_.back()));
    }
  }
  std::string NaturalOf(uint32_t member) const {
    std::string letters;
    for (const auto& block : set_.members[member].natural.blocks) letters += static_cast<char>(streams_[member][block.offset]);
    return letters;
  }
  Buffer ThinOf(uint32_t member) const {
    const ThinStream thin(set_.members[member]);
    Buffer bytes;
    for (const auto& piece : thin.OfThin(0, thin.bytes())) {
      const auto from = streams_[member].begin() + static_cast<std::ptrdiff_t>(piece.stream_offset);
      bytes.insert(bytes.end(), from, from + static_cast<std::ptrdiff_t>(piece.bytes));
    }
    return bytes;
  }

  std::vector<Buffer> streams_;
  SetRecord set_;
};

TEST_F(Natural, BlocksAreInMoreMembersThanMayBeLost) {
  Make({"abcx", "abyy", "azzb"});
  KeepNatural(Scheme::kXor, 1, &set_.members);
  EXPECT_EQ(NaturalOf(0), "ab");
  EXPECT_EQ(NaturalOf(1), "ab") << "what one member has twice is lost with it";
  EXPECT_EQ(NaturalOf(2), "ab");
  KeepNatural(Scheme::kReedSolomon, 2, &set_.members);
  EXPECT_EQ(NaturalOf(0), "ab");
}

TEST_F(Natural, TwoLossesNeedThree) {
  Make({"abcx", "abyy", "azzw"});
  KeepNatural(Scheme::kReedSolomon, 2, &set_.members);
  EXPECT_EQ(NaturalOf(0), "a");
  EXPECT_EQ(NaturalOf(2), "a");
}

// Members keep theirs at any time: those that hear of what is left find the same.
TEST_F(Natural, WhatSomeHaveKeptAlreadyGivesTheSame) {
  Make({"abcxab", "abyyaq", "azzbwb"});
  std::vector<SetMember> all = set_.members;
  KeepNatural(Scheme::kXor, 1, &all);
  for (uint32_t kept = 0; kept < 8; ++kept) {
    std::vector<SetMember> some = set_.members;
    for (uint32_t member = 0; member < 3; ++member) {
      if ((kept >> member & 1) != 0) some[member] = all[member];
    }
    KeepNatural(Scheme::kXor, 1, &some);
    EXPECT_EQ(some, all) << kept;
  }
}

TEST_F(Natural, AreNotWorthAFewBytes) {
  Make({std::string(40, 'x') + "a", "a"});
  KeepNatural(Scheme::kXor, 1, &set_.members);
  EXPECT_EQ(NaturalOf(0), "");
  EXPECT_EQ(set_.members[0].natural.block_bytes, 0u);
}

// Parity is of the longest stream, copies are of all of them.
TEST_F(Natural, AreWorthItInTheCopiesOfShortImages) {
  Make({std::string(16, 'x') + "yzvw", "ab", "ab"});
  std::vector<SetMember> of_copies = set_.members;
  KeepNatural(Scheme::kXor, 1, &set_.members);
  EXPECT_EQ(NaturalOf(1), "");
  KeepNatural(Scheme::kPartner, 1, &of_copies);
  EXPECT_EQ(of_copies[1].natural.blocks.size(), 2u);
}

TEST_F(Natural, BlocksOfOtherSizesAreOthers) {
  Make({"ab", "ab"});
  set_.members[1].natural.block_bytes = kStep;
  KeepNatural(Scheme::kXor, 1, &set_.members);
  EXPECT_EQ(NaturalOf(0), "");
}

TEST_F(Natural, TheThinStreamIsTheRest) {
  Make({"xaaybz", "aqb"});
  KeepNatural(Scheme::kXor, 1, &set_.members);
  const ThinStream thin(set_.members[0]);
  Buffer expected = StreamOf("xyz");
  EXPECT_EQ(thin.bytes(), expected.size());
  EXPECT_TRUE(ThinOf(0) == expected);
  BlockTableBuilder table(expected.size(), kStep);
  table.Add(expected);
  EXPECT_EQ(ThinTable(set_.members[0]), table.Finish());
  // Each of its ranges is where it is said to be, and each range of the stream is made of what it is said to be made of.
  for (uint64_t begin = 0; begin < thin.bytes(); begin += 1000) {
    for (uint64_t end = begin + 1; end <= thin.bytes(); end += 3001) {
      uint64_t at = begin;
      for (const auto& piece : thin.OfThin(begin, end - begin)) {
        ASSERT_TRUE(std::equal(&expected[at], &expected[at] + piece.bytes, &streams_[0][piece.stream_offset]));
        at += piece.bytes;
      }
      ASSERT_EQ(at, end);
    }
  }
  for (uint64_t begin = 0; begin < thin.stream_bytes(); begin += 1000) {
    uint64_t at = begin;
    for (const auto& piece : thin.OfStream(begin, thin.stream_bytes() - begin)) {
      ASSERT_EQ(piece.stream_offset, at);
      if (piece.thin_offset) {
        ASSERT_TRUE(std::equal(&streams_[0][at], &streams_[0][at] + piece.bytes, &expected[*piece.thin_offset]));
        ASSERT_EQ(*piece.thin_offset, thin.ThinBefore(at));
      }
      at += piece.bytes;
    }
    ASSERT_EQ(at, thin.stream_bytes());
  }
}

class Replicas : public Natural {
 protected:
  Replicas() {
    Make({"xabcy", "abcpq", "rsbca", "tuvwa"});
    KeepNatural(Scheme::kXor, 1, &set_.members);
  }
  Status FillAll() {
    const ThinStream thin(set_.members[0]);
    filled_ = StreamOf("x---y");
    const NaturalReplicas replicas(set_, 0);
    return replicas.Fill(thin.OfStream(0, thin.stream_bytes()), 0, filled_,
                         [this](uint32_t member, uint64_t offset, std::span<std::byte> to) {
                           reads_.push_back(member);
                           if (lost_.contains(member)) return Status(Code::kUnavailable, "lost");
                           std::memcpy(to.data(), &streams_[member][offset], to.size());
                           return Status::Ok();
                         });
  }

  Buffer filled_;
  std::set<uint32_t> lost_;
  std::vector<uint32_t> reads_;
};

TEST_F(Replicas, ComeInOneReadWhereTheyFollowEachOther) {
  ASSERT_TRUE(FillAll().ok());
  EXPECT_TRUE(filled_ == streams_[0]);
  EXPECT_THAT(reads_, ElementsAre(1));
}

TEST_F(Replicas, ComeFromTheNextMemberThatHasThem) {
  lost_ = {1};
  ASSERT_TRUE(FillAll().ok());
  EXPECT_TRUE(filled_ == streams_[0]);
}

TEST_F(Replicas, AreHeldAgainstTheirFingerprints) {
  streams_[1][kBlock + 17] ^= std::byte{1};
  ASSERT_TRUE(FillAll().ok());
  EXPECT_TRUE(filled_ == streams_[0]);
}

TEST_F(Replicas, AreLostWhereNobodyHasThem) {
  lost_ = {1, 2};
  const Status status = FillAll();
  EXPECT_EQ(status.code(), Code::kIncomplete);
  EXPECT_THAT(status.message(), HasSubstr("natural block"));
}

}  // namespace
}  // namespace kedge::redundancy
