// What is wanted of a region, against boxes that are looked through element by element.
#include "restore/region_target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace kedge {
namespace {

constexpr uint64_t kElementBytes = 3;

class Target {
 public:
  explicit Target(uint32_t seed) : random_(seed) {
    const size_t dimensions = Below(3) + 1;
    for (size_t d = 0; d < dimensions; ++d) {
      array_.offset.push_back(0);
      array_.shape.push_back(static_cast<int64_t>(Below(7)) + 1);
    }
    from_ = RandomBox(array_);
    to_ = array_;
    std::vector<ArrayBox> left = {from_};
    for (uint64_t i = Below(4); i > 0 && !left.empty(); --i) {
      const size_t which = Below(left.size());
      const ArrayBox box = RandomBox(left[which]);
      std::ranges::move(Without(left[which], box), std::back_inserter(left));
      left.erase(left.begin() + static_cast<ptrdiff_t>(which));
      target_.boxes.emplace_back(box, from_, to_, kElementBytes);
      Add(box);
    }
  }
  const RegionTarget& target() const { return target_; }
  uint64_t bytes() const { return from_.Elements() * kElementBytes; }
  uint64_t Below(uint64_t bound) { return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_); }
  // By the region's byte: where it goes.
  std::map<uint64_t, uint64_t> Between(uint64_t begin, uint64_t end) const {
    return {goes_.lower_bound(begin), goes_.lower_bound(end)};
  }

 private:
  ArrayBox RandomBox(const ArrayBox& within) {
    ArrayBox box;
    for (size_t d = 0; d < within.shape.size(); ++d) {
      const auto extent = static_cast<uint64_t>(within.shape[d]);
      const auto shape = static_cast<int64_t>(Below(extent) + 1);
      box.shape.push_back(shape);
      box.offset.push_back(within.offset[d] + static_cast<int64_t>(Below(extent - static_cast<uint64_t>(shape) + 1)));
    }
    return box;
  }
  static uint64_t ByteOf(const ArrayBox& box, const std::vector<int64_t>& at) {
    uint64_t element = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      element = element * static_cast<uint64_t>(box.shape[d]) + static_cast<uint64_t>(at[d] - box.offset[d]);
    }
    return element * kElementBytes;
  }
  void Add(const ArrayBox& box) {
    std::vector<int64_t> at = box.offset;
    for (uint64_t i = 0; i < box.Elements(); ++i) {
      for (uint64_t byte = 0; byte < kElementBytes; ++byte) goes_[ByteOf(from_, at) + byte] = ByteOf(to_, at) + byte;
      for (size_t d = at.size(); d-- > 0;) {
        if (++at[d] < box.offset[d] + box.shape[d]) break;
        at[d] = box.offset[d];
      }
    }
  }

  std::mt19937 random_;
  ArrayBox array_, from_, to_;
  RegionTarget target_;
  std::map<uint64_t, uint64_t> goes_;
};

TEST(RegionTarget, RunsAreWhatTheBoxesHaveBetweenTwoBytesInOrder) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    Target random(seed);
    if (random.target().boxes.empty()) continue;
    for (int round = 0; round < 20; ++round) {
      const uint64_t begin = random.Below(random.bytes()), end = begin + 1 + random.Below(random.bytes() - begin);
      std::map<uint64_t, uint64_t> found;
      WantedRuns runs(random.target(), begin, end);
      uint64_t done = begin;
      for (auto run = runs.Next(); run; run = runs.Next()) {
        ASSERT_GE(run->from, done) << seed;
        ASSERT_GT(run->bytes, 0u) << seed;
        done = run->from + run->bytes;
        for (uint64_t byte = 0; byte < run->bytes; ++byte) found[run->from + byte] = run->to + byte;
      }
      ASSERT_LE(done, end) << seed;
      ASSERT_EQ(found, random.Between(begin, end)) << seed;
      ASSERT_EQ(random.target().Wants(begin, end), !found.empty()) << seed;
      ASSERT_FALSE(runs.Next());
    }
  }
}

TEST(RegionTarget, WithoutBoxesAllIsWanted) {
  std::byte memory[8];
  const RegionTarget target{0, memory, 100};
  WantedRuns runs(target, 102, 107);
  const auto run = runs.Next();
  ASSERT_TRUE(run);
  EXPECT_EQ(run->from, 102u);
  EXPECT_EQ(run->to, 2u);
  EXPECT_EQ(run->bytes, 5u);
  EXPECT_FALSE(runs.Next());
  EXPECT_EQ(target.Whole(102, 107).data(), memory + 2);
  EXPECT_TRUE(target.Wants(102, 102)) << "an empty region is restored, too";
  EXPECT_FALSE(WantedRuns(target, 102, 102).Next());
}

}  // namespace
}  // namespace kedge
