#include "agent/space/tier_cut.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "session/config_keys.h"
#include "tier/tier_info.h"

namespace kedge {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(TierCut, IsSixteenSlotsOrMoreWhereTheyFit) {
  const auto cut = [](uint64_t capacity_bytes, std::optional<uint64_t> chunk_bytes) {
    return CutTier(TierKind::kDirectory, capacity_bytes, chunk_bytes);
  };
  EXPECT_EQ(cut(16 * kChunkBytesDefault, std::nullopt), (TierCut{kChunkBytesDefault, 16, 16}));
  EXPECT_EQ(cut(16 * kChunkBytesDefault - 1, std::nullopt), (TierCut{kChunkBytesDefault / 2, 31, 31}));
  EXPECT_EQ(cut(3 * kMiB, std::nullopt), (TierCut{kChunkBytesMin, 3, 3}));
  EXPECT_EQ(cut(3 * kMiB, 2 * kMiB), (TierCut{2 * kMiB, 1, 1}));
  EXPECT_EQ(cut(kMiB - 1, std::nullopt).slots, 0u);
  EXPECT_EQ(cut(UINT64_MAX, 4096).slots, kSlotsMax);
}

TEST(TierCut, OfMemoryHasSlotsThatAreBackedInPart) {
  const auto cut = [](uint64_t slots) { return CutTier(TierKind::kMemory, slots * 4096, 4096); };
  EXPECT_EQ(cut(1), (TierCut{4096, 4, 1}));
  EXPECT_EQ(cut(32), (TierCut{4096, 128, 32}));
  EXPECT_EQ(cut(10000), (TierCut{4096, 11024, 10000}));
  EXPECT_EQ(cut(kSlotsMax), (TierCut{4096, kSlotsMax, kSlotsMax}));
  EXPECT_EQ(cut(0).slots, 0u);
}

TEST(TierCut, ComesBackFromItsFile) {
  for (const TierCut& cut : {TierCut{4096, 4, 1}, TierCut{64 * kMiB, 16, 16}, TierCut{kMiB, kSlotsMax, 7}}) {
    EXPECT_EQ(ParseTierCut(FormatTierCut(cut)), cut);
  }
}

TEST(TierCut, IsNotBelievedWhenNoTierCanBeCutSo) {
  const std::vector<std::string> others = {"",
                                           "slot_bytes",
                                           "slot_bytes 4096 slots 4\n",
                                           "slot_bytes 0 slots 4 full 4\n",
                                           "slot_bytes 4096 slots 0 full 0\n",
                                           "slot_bytes 4095 slots 4 full 4\n",
                                           "slot_bytes 4096 slots 4 full 4",
                                           "slot_bytes 4096 slots 4 full 4\n\n",
                                           "slot_bytes  4096 slots 4 full 4\n",
                                           "slot_bytes +4096 slots 4 full 4\n",
                                           "slot_bytes 4096 slots 4 full 5\n",
                                           "slot_bytes 4096 slots 4 full 0\n",
                                           "slot_bytes 4096 slots 1048577 full 4\n",
                                           "slot_bytes 4096 slots 4294967300 full 4\n",
                                           "slot_bytes 18446744073709547520 slots 1 full 1\n",
                                           "slot_bytes 18446744073709555712 slots 4 full 4\n"};
  for (const std::string& text : others) {
    EXPECT_EQ(ParseTierCut(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace kedge
