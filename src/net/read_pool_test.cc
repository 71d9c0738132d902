#include "net/read_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

namespace kedge::net {
namespace {

constexpr size_t kBufferBytes = 4096;

std::vector<size_t> AcquireAll(ReadPool& pool) {
  std::vector<size_t> all;
  while (const auto buffer = pool.Acquire()) all.push_back(*buffer);
  return all;
}

// Of two, with one spare for what hangs.
TEST(ReadPoolTest, AsManyAreThereAsBeforeWhenAllThatHungHaveComeBack) {
  const auto pool = std::make_shared<ReadPool>(2, 1, kBufferBytes);
  int told = 0;
  pool->OnRelease([&] { ++told; });
  for (int round = 0; round < 3; ++round) {
    std::vector<size_t> hanging = AcquireAll(*pool);
    ASSERT_EQ(hanging.size(), 2u) << round;
    for (size_t i = 0; i < 2; ++i) pool->AddSpare();
    const std::vector<size_t> spare = AcquireAll(*pool);
    ASSERT_EQ(spare.size(), 1u) << round;
    hanging.push_back(spare[0]);
    EXPECT_EQ(std::set<size_t>(hanging.begin(), hanging.end()).size(), 3u);
    told = 0;
    pool->Retire(hanging[0]);
    EXPECT_EQ(told, 1) << "it takes the place of the one that no spare stood in for";
    pool->Retire(hanging[1]);
    pool->Release(hanging[2]);
  }
}

}  // namespace
}  // namespace kedge::net
