#include "base/random.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace kedge {
namespace {

TEST(Random, GivesTheSameSequenceForEver) {
  // From an independent program; a change here would break the replay of every recorded seed.
  Random random(42);
  const uint64_t expected[] = {1546998764402558742u, 6990951692964543102u, 12544586762248559009u, 17057574109182124193u};
  for (const uint64_t value : expected) EXPECT_EQ(random.Next(), value);
  EXPECT_NE(Random(1).Next(), Random(2).Next());
}

TEST(Random, IsUniformEnough) {
  Random random(7);
  std::map<uint64_t, int> counts;
  for (int i = 0; i < 60'000; ++i) ++counts[random.Below(6)];
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, 10'000, 500) << value;
  int hits = 0;
  for (int i = 0; i < 10'000; ++i) hits += random.Chance(0.25);
  EXPECT_NEAR(hits, 2500, 250);
  for (int i = 0; i < 1000; ++i) {
    const double unit = random.Unit();
    ASSERT_TRUE(unit >= 0 && unit < 1);
  }
  EXPECT_EQ(random.Below(1), 0u);
}

TEST(Random, FillsAnyLength) {
  for (size_t bytes = 0; bytes < 40; ++bytes) {
    std::vector<unsigned char> data(bytes + 1, 0xEE);
    Random(bytes).Fill(data.data(), bytes);
    EXPECT_EQ(data[bytes], 0xEE);
  }
}

TEST(Random, MixedSeedsDiffer) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (uint64_t stream = 0; stream < 50; ++stream) seeds.insert(MixSeed(seed, stream));
  }
  EXPECT_EQ(seeds.size(), 2500u);
}

TEST(Id128, IsUniqueAndReadsBack) {
  std::set<Id128> ids;
  for (int i = 0; i < 1000; ++i) {
    const Id128 id = Id128::Generate();
    EXPECT_FALSE(id.IsZero());
    EXPECT_EQ(id.ToHex().size(), 32u);
    EXPECT_EQ(Id128::FromHex(id.ToHex()), id);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_EQ((Id128{1, 2}.ToHex()), "00000000000000010000000000000002");
  for (const char* text : {"", "0", "0000000000000001000000000000000g", "000000000000000100000000000000020",
                           "-0000000000000010000000000000002", "0x00000000000001000000000000000002"}) {
    EXPECT_FALSE(Id128::FromHex(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace kedge
