#include "agent/space/tier_cut.h"

#include <gtest/gtest.h>

#include "session/config_keys.h"
#include "tier/tier_info.h"

namespace kedge {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(TierCut, IsSixteenSlotsOrMoreWhereTheyFit) {
  EXPECT_EQ(CutTier(16 * kChunkBytesDefault, std::nullopt), (TierCut{kChunkBytesDefault, 16}));
  EXPECT_EQ(CutTier(16 * kChunkBytesDefault - 1, std::nullopt), (TierCut{kChunkBytesDefault / 2, 31}));
  EXPECT_EQ(CutTier(3 * kMiB, std::nullopt), (TierCut{kChunkBytesMin, 3}));
  EXPECT_EQ(CutTier(3 * kMiB, 2 * kMiB), (TierCut{2 * kMiB, 1}));
  EXPECT_EQ(CutTier(kMiB - 1, std::nullopt).slots, 0u);
  EXPECT_EQ(CutTier(UINT64_MAX, 4096).slots, kSlotsMax);
}

TEST(TierCut, ComesBackFromItsFile) {
  for (const TierCut& cut : {TierCut{4096, 1}, TierCut{64 * kMiB, 16}, TierCut{kMiB, kSlotsMax}}) {
    EXPECT_EQ(ParseTierCut(FormatTierCut(cut)), cut);
  }
}

TEST(TierCut, IsNotBelievedWhenNoTierCanBeCutSo) {
  for (const char* text : {"", "slot_bytes", "slot_bytes 0 slots 4\n", "slot_bytes 4096 slots 0\n", "slot_bytes 4095 slots 4\n",
                           "slot_bytes 4096 slots 4", "slot_bytes 4096 slots 4\n\n", "slot_bytes  4096 slots 4\n",
                           "slot_bytes +4096 slots 4\n", "slot_bytes 4096 slots 1048577\n", "slot_bytes 4096 slots 4294967300\n",
                           "slot_bytes 18446744073709547520 slots 1\n", "slot_bytes 18446744073709555712 slots 4\n"}) {
    EXPECT_EQ(ParseTierCut(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace kedge
