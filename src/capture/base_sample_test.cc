// Samples of memory against an image.
#include "capture/base_sample.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"

namespace kedge {
namespace {

// A region of two extents, in two chunks.
struct Sampled {
  Sampled(const Sampled&) = delete;
  Sampled() {
    Random(1).Fill(memory.data(), memory.size());
    saved = memory;
    region.id = 7;
    region.bytes = memory.size();
    base.record.regions = {region};
    const auto* const bytes = reinterpret_cast<const std::byte*>(saved.data());
    base.chunks = {bytes, bytes + half};
    for (uint32_t i = 0; i < 2; ++i) base.record.extents.push_back(Extent{0, i * half, half, i, 0, 0});
  }
  // Of so many seeds, those that agree.
  int Agreeing(const std::vector<ChangedRange>& changed) const {
    int agreeing = 0;
    for (uint64_t seed = 0; seed < 200; ++seed) agreeing += AgreesWithBase(base, region, memory.data(), changed, seed) ? 1 : 0;
    return agreeing;
  }

  static constexpr uint64_t half = 1 << 20;
  std::string memory = std::string(2 * half, '\0');
  std::string saved;
  Region region;
  ImageBase base;
};

TEST(BaseSample, FindsWhatHasChangedUnseenAndNothingElse) {
  Sampled sampled;
  EXPECT_EQ(sampled.Agreeing({}), 200);
  // A quarter of it, that is named: nothing of it is looked at.
  for (uint64_t i = 0; i < sampled.half / 2; ++i) sampled.memory[sampled.half / 2 + i] ^= 1;
  EXPECT_EQ(sampled.Agreeing({{sampled.half / 2, sampled.half / 2}}), 200);
  // The same unnamed: sixteen samples hardly miss it.
  EXPECT_LT(sampled.Agreeing({}), 20);
  EXPECT_LT(sampled.Agreeing({{0, 100}, {2 * sampled.half - 1, 1}}), 20);
}

TEST(BaseSample, LooksOnlyWhereTheBaseHasTheRegionInMemory) {
  Sampled sampled;
  for (char& byte : sampled.memory) byte ^= 1;
  EXPECT_EQ(sampled.Agreeing({}), 0);
  sampled.base.chunks = {nullptr, nullptr};
  EXPECT_EQ(sampled.Agreeing({}), 200);
  Sampled other;
  for (char& byte : other.memory) byte ^= 1;
  other.region.id = 8;
  EXPECT_EQ(other.Agreeing({}), 200) << "another region";
}

}  // namespace
}  // namespace kedge
