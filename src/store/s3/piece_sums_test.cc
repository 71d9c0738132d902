#include "store/s3/piece_sums.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "format/wire.h"

namespace kedge::s3 {
namespace {

Buffer SomeBytes() {
  Buffer bytes(5000);
  Random(3).Fill(bytes.data(), bytes.size());
  return bytes;
}

void AddPiece(PieceSums& sums, const Buffer& content, uint64_t begin, uint64_t end) {
  sums.Add(begin, end - begin, crc32c::Compute(content.data() + begin, end - begin));
}

TEST(PieceSums, PiecesInAnyOrderGiveTheSumOfAll) {
  const Buffer content = SomeBytes();
  PieceSums sums;
  AddPiece(sums, content, 3000, 4000);
  AddPiece(sums, content, 0, 1);
  AddPiece(sums, content, 4000, 5000);
  AddPiece(sums, content, 1, 3000);
  EXPECT_EQ(sums.Of(5000), crc32c::Compute(content.data(), 5000));
  EXPECT_EQ(sums.Of(4999), std::nullopt);
}

TEST(PieceSums, GapsAndOverlapsHaveNone) {
  const Buffer content = SomeBytes();
  PieceSums gap;
  AddPiece(gap, content, 0, 1000);
  AddPiece(gap, content, 1001, 5000);
  EXPECT_EQ(gap.Of(5000), std::nullopt);
  for (const auto& [begin, end] : {std::pair(0, 1000), std::pair(500, 600), std::pair(999, 1001), std::pair(900, 2000)}) {
    PieceSums overlap;
    AddPiece(overlap, content, 0, 1000);
    AddPiece(overlap, content, 1000, 2000);
    AddPiece(overlap, content, begin, end);
    AddPiece(overlap, content, 2000, 5000);
    EXPECT_EQ(overlap.Of(5000), std::nullopt) << begin << " to " << end;
  }
  EXPECT_EQ(PieceSums().Of(0), 0u);
}

}  // namespace
}  // namespace kedge::s3
