#include "agent/gather/carry_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kedge {
namespace {

Generation Of(const std::string& job, const std::string& name, int64_t version) {
  return {StoreId{}, job, name, version, 1, 1};
}

std::vector<int> TakeAll(CarryQueue<int>& queue) {
  std::vector<int> orders;
  while (const auto order = queue.Take()) orders.push_back(*order);
  return orders;
}

TEST(CarryQueueTest, TheOldestVersionOfANameIsFirst) {
  CarryQueue<int> queue;
  EXPECT_EQ(queue.Take(), std::nullopt);
  queue.Add(Of("job", "a", 3), 1);
  queue.Add(Of("job", "a", 2), 2);
  queue.Add(Of("job", "a", 3), 3);
  queue.Add(Of("job", "a", 2), 4);
  queue.Add(Of("job", "a", 1), 5);
  EXPECT_EQ(queue.size(), 5u);
  EXPECT_EQ(TakeAll(queue), (std::vector<int>{5, 2, 4, 1, 3}));
  EXPECT_TRUE(queue.empty());
}

// However old their versions are.
TEST(CarryQueueTest, OfOthersWhoHasWaitedLongestIs) {
  CarryQueue<int> queue;
  queue.Add(Of("job", "a", 900), 1);
  queue.Add(Of("job", "b", 1), 2);
  queue.Add(Of("other", "a", 1), 3);
  queue.Add(Of("job", "a", 899), 4);
  EXPECT_EQ(TakeAll(queue), (std::vector<int>{4, 1, 2, 3}));
}

TEST(CarryQueueTest, OfOneVersionAllAreInTheirOrder) {
  CarryQueue<int> queue;
  for (int i = 0; i < 10; ++i) queue.Add(Of("job", "a", 7), i);
  EXPECT_EQ(TakeAll(queue), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace kedge
