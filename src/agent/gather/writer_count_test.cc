// Stores that are faster with more writers, or slower, on paper.
#include "agent/gather/writer_count.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"

namespace kedge {
namespace {

using Rate = std::function<double(uint32_t writers)>;  // bytes per second
constexpr std::chrono::milliseconds kTick(200);

void Write(WriterCount& count, const Rate& rate, double seconds, Random* noise = nullptr) {
  for (double time = 0; time < seconds; time += 0.2) {
    const double factor = noise == nullptr ? 1 : 0.99 + 0.02 * noise->Unit();
    count.Add(static_cast<uint64_t>(rate(count.now()) * 0.2 * factor), kTick, true);
  }
}

// Each writer has 100 MB/s, as far as the store has them.
Rate UpTo(double writers) {
  return [writers](uint32_t count) { return 1e8 * std::min<double>(count, writers); };
}

TEST(WriterCountTest, GrowsWhileThatIsFaster) {
  WriterCount count({1, 16, 4});
  Write(count, UpTo(1000), 10);
  EXPECT_EQ(count.now(), 16u);
}

TEST(WriterCountTest, HasNoMoreThanItTakes) {
  WriterCount count({1, 16, 4});
  Write(count, UpTo(9), 20);
  EXPECT_EQ(count.now(), 9u);
}

TEST(WriterCountTest, ShrinksWhereOneIsEnough) {
  WriterCount count({1, 16, 4});
  Write(count, UpTo(1), 10);
  EXPECT_EQ(count.now(), 1u);
}

TEST(WriterCountTest, ShrinksWhereWritersGetInEachOthersWay) {
  WriterCount count({1, 16, 8});
  Write(
      count, [](uint32_t writers) { return 1e9 * (1 - 0.05 * std::abs(static_cast<double>(writers) - 3)); }, 20);
  EXPECT_GE(count.now(), 2u);
  EXPECT_LE(count.now(), 4u);
}

// Of most of the time: now and then others are tried.
uint32_t Usual(WriterCount& count, const Rate& rate) {
  Write(count, rate, 20);
  std::vector<uint32_t> counts;
  for (int i = 0; i < 101; ++i) {
    counts.push_back(count.now());
    Write(count, rate, 0.2);
  }
  std::ranges::sort(counts);
  return counts[50];
}

TEST(WriterCountTest, FollowsAStoreThatChanges) {
  WriterCount count({1, 16, 4});
  EXPECT_EQ(Usual(count, UpTo(2)), 2u);
  EXPECT_EQ(Usual(count, [](uint32_t writers) { return 3e8 * std::min<double>(writers, 12); }), 12u);
  EXPECT_EQ(Usual(count, UpTo(1)), 1u);
}

TEST(WriterCountTest, LooksAgainAfterAWhile) {
  WriterCount count({1, 16, 4});
  Write(count, UpTo(4), 20);
  EXPECT_EQ(count.now(), 4u);
  // What four do is the same as before; more would do more now.
  double most_seconds = 0;
  for (; most_seconds < 300 && count.now() < 10; most_seconds += 1) Write(count, UpTo(10), 1);
  EXPECT_LT(most_seconds, 100);
}

TEST(WriterCountTest, WhatHadNoWorkSaysNothing) {
  WriterCount count({1, 16, 4});
  for (int i = 0; i < 1000; ++i) count.Add(1'000'000, kTick, false);
  EXPECT_EQ(count.now(), 4u);
}

TEST(WriterCountTest, AStoreThatTakesNothingChangesNothing) {
  WriterCount count({1, 16, 4});
  Write(
      count, [](uint32_t) { return 0.0; }, 60);
  EXPECT_EQ(count.now(), 4u);
}

TEST(WriterCountTest, OneNumberAloneIsKept) {
  WriterCount count({3, 3, 4});
  EXPECT_EQ(count.now(), 3u);
  Write(count, UpTo(1000), 60);
  EXPECT_EQ(count.now(), 3u);
}

class WriterCountProperty : public ::testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, WriterCountProperty, ::testing::Range<uint64_t>(0, 100));

// Any store that gets faster by fewer and fewer, and slower again perhaps, measured with an error of a hundredth: never outside
// its bounds, soon nearly as fast as can be and for nearly all of the time, and with hardly more writers than that takes.
TEST_P(WriterCountProperty, IsNearlyAsFastAsCanBeWithFew) {
  Random random(GetParam());
  const auto least = static_cast<uint32_t>(1 + random.Below(3));
  const auto most = static_cast<uint32_t>(least + random.Below(30));
  const double one = 1e7 * static_cast<double>(1 + random.Below(50)), cap = 1 + 40 * random.Unit(), falls = 0.02 * random.Unit();
  const bool is_sharp = random.Below(2) == 0;
  const Rate rate = [=](uint32_t writers) {
    const double count = writers;
    const double rises = is_sharp ? std::min(count, cap) : count * cap / (count + cap);
    return one * rises / (1 + falls * std::max(count - cap, 0.0));
  };
  double best = 0;
  for (uint32_t writers = least; writers <= most; ++writers) best = std::max(best, rate(writers));
  uint32_t enough = least;
  while (rate(enough) < best * 0.97) ++enough;

  WriterCount count({least, most, 4});
  Write(count, rate, 30, &random);
  double written = 0;
  std::vector<uint32_t> counts;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_GE(count.now(), least);
    ASSERT_LE(count.now(), most);
    counts.push_back(count.now());
    written += rate(count.now()) / 1000;
    Write(count, rate, 0.2, &random);
  }
  EXPECT_GE(written, best * 0.9) << least << " to " << most;
  std::ranges::sort(counts);
  EXPECT_LE(counts[500], enough) << "half of the time at most";
}

}  // namespace
}  // namespace kedge
