// The order of a copy under writers, and what it saves them, played on paper.
#include "capture/copy_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace kedge {
namespace {

using ::testing::ElementsAre;

// A copier that takes `kCopyTime` for a unit, and a program that writes units in the same order at each step, and waits for a
// unit that is not copied yet: that one is copied next.
class Paper {
 public:
  Paper(uint32_t units, std::vector<uint32_t> writes, int64_t write_time)
      : writes_(std::move(writes)), write_time_(write_time), addresses_(units) {
    for (uint32_t i = 0; i < units; ++i) addresses_[i] = 1000 + i;
  }
  // How many writes waited.
  size_t Capture(CopyOrder* history) const {
    static constexpr int64_t kCopyTime = 10;
    const std::vector<uint32_t> order = history->Of(addresses_);
    std::vector<bool> is_copied(addresses_.size());
    std::vector<CopyOrder::Waited> waited;
    int64_t copier = 0, writer = 0;
    size_t next = 0;
    const auto copy_until = [&](int64_t time) {
      for (; next < order.size() && copier + kCopyTime <= time; ++next) {
        if (!is_copied[order[next]]) copier += kCopyTime;
        is_copied[order[next]] = true;
      }
    };
    for (uint32_t unit : writes_) {
      writer += write_time_;
      copy_until(writer);
      if (is_copied[unit]) continue;
      waited.push_back({addresses_[unit], writer});
      copier = std::max(copier, writer) + kCopyTime;
      is_copied[unit] = true;
      writer = copier;
    }
    history->Learn(addresses_, waited);
    return waited.size();
  }

 private:
  const std::vector<uint32_t> writes_;
  const int64_t write_time_;
  std::vector<uint64_t> addresses_;
};

// Hot memory behind cold: what order of addresses is worst at.
std::vector<uint32_t> Last(uint32_t units, uint32_t hot) {
  std::vector<uint32_t> writes;
  for (uint32_t i = 0; i < hot; ++i) writes.push_back(units - hot + i);
  return writes;
}

TEST(CopyOrderTest, WithoutHistoryTheOrderIsThatOfAddresses) {
  const std::vector<uint64_t> units{10, 20, 30};
  EXPECT_THAT(CopyOrder().Of(units), ElementsAre(0, 1, 2));
}

TEST(CopyOrderTest, WhatWaitedComesFirstAsItWasWrittenFirst) {
  const std::vector<uint64_t> units{10, 20, 30, 40, 50};
  CopyOrder order;
  order.Learn(units, std::vector<CopyOrder::Waited>{{40, 7}, {20, 9}});
  EXPECT_THAT(order.Of(units), ElementsAre(3, 1, 0, 2, 4));
  // Others waited since; the former were copied in time, and are as urgent as they were.
  order.Learn(units, std::vector<CopyOrder::Waited>{{50, 8}});
  EXPECT_THAT(order.Of(units), ElementsAre(3, 4, 1, 0, 2));
  // The same unit earlier than before.
  order.Learn(units, std::vector<CopyOrder::Waited>{{20, 1}});
  EXPECT_THAT(order.Of(units), ElementsAre(1, 3, 4, 0, 2));
}

TEST(CopyOrderTest, WhatIsCapturedNoMoreIsForgotten) {
  const std::vector<uint64_t> before{10, 20}, after{20, 30};
  CopyOrder order;
  order.Learn(before, std::vector<CopyOrder::Waited>{{20, 5}, {10, 6}});
  order.Learn(after, {});
  EXPECT_THAT(order.Of(before), ElementsAre(1, 0));
  EXPECT_THAT(order.Of(after), ElementsAre(0, 1));
  order.Learn(before, {});
  order.Learn(std::vector<uint64_t>{30}, {});
  EXPECT_THAT(order.Of(before), ElementsAre(0, 1));
}

TEST(CopyOrderTest, FewerThanHalfTheWritersWaitThanInOrderOfAddresses) {
  const Paper paper(1000, Last(1000, 200), 12);
  CopyOrder history;
  const size_t by_address = paper.Capture(&history);
  EXPECT_EQ(by_address, 200u);
  size_t waited = by_address;
  for (int image = 0; image < 3; ++image) waited = paper.Capture(&history);
  EXPECT_LE(waited, by_address / 2);
  EXPECT_LE(waited, 2u) << "a copier that is faster than the writer needs no more";
}

TEST(CopyOrderTest, ItSettlesWhereWritesAreScattered) {
  std::vector<uint32_t> writes(1000);
  for (uint32_t i = 0; i < writes.size(); ++i) writes[i] = i;
  std::shuffle(writes.begin(), writes.end(), std::mt19937_64(1));
  const Paper paper(1000, writes, 12);
  CopyOrder history;
  const size_t by_address = paper.Capture(&history);
  size_t before = by_address;
  for (int image = 0; image < 8; ++image) {
    const size_t waited = paper.Capture(&history);
    EXPECT_LE(waited, std::max<size_t>(before, by_address / 2)) << "no worse than before, image " << image;
    before = waited;
  }
  EXPECT_LE(before, by_address / 2);
}

}  // namespace
}  // namespace kedge
