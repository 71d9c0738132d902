// Gap tables there and back, and what is no gap table.
#include "session/gap_table.h"

#include <gtest/gtest.h>

namespace kedge {
namespace {

TEST(GapTable, ComesBackAsItWas) {
  const GapTable tables[] = {{}, {7, {}}, {1, {{0, 0, 4096}, {0, 8192, 1}, {2, 5, uint64_t{1} << 30}, {900, 0, 3}}}};
  for (const GapTable& table : tables) {
    Buffer bytes;
    EncodeGapTable(table, &bytes);
    const auto decoded = DecodeGapTable(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(*decoded, table);
    for (size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_FALSE(DecodeGapTable(ByteSpan(bytes).first(cut)).ok()) << cut;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(DecodeGapTable(bytes).ok()) << "a byte too many";
  }
}

TEST(GapTable, RefusesWhatNoImageCanHave) {
  for (const GapTable& table : {GapTable{1, {{0, uint64_t{1} << 60, 1}}}, GapTable{1, {{0, 1, uint64_t{1} << 60}}},
                                GapTable{1, {{0, 0, uint64_t{1} << 50}, {0, uint64_t{1} << 50, 1}}}}) {
    Buffer bytes;
    EncodeGapTable(table, &bytes);
    EXPECT_EQ(DecodeGapTable(bytes).status().code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace kedge
