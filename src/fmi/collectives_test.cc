#include "fmi/collectives.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "fmi/testing/rank_threads.h"

namespace kedge::fmi {
namespace {

using testing::NewBoard;
using testing::RunRanks;

class OfRanks : public ::testing::TestWithParam<uint32_t> {
 protected:
  void Run(const std::function<void(Collectives& collectives, uint32_t rank)>& body) {
    Board board = NewBoard(GetParam());
    RunRanks(&board, [&](Messenger& messenger) {
      Collectives collectives(CommunicatorChannel(&messenger, Context::kCollective));
      body(collectives, messenger.rank());
    });
  }
};

TEST_P(OfRanks, BarrierLetsNobodyThroughBeforeAllHaveCome) {
  std::atomic<uint32_t> come{0};
  Run([&](Collectives& collectives, uint32_t) {
    for (uint32_t round = 1; round <= 20; ++round) {
      ++come;
      ASSERT_TRUE(collectives.Barrier().ok());
      EXPECT_GE(come.load(), round * GetParam());
    }
  });
}

TEST_P(OfRanks, GivesToAllFromEachRoot) {
  Run([&](Collectives& collectives, uint32_t rank) {
    for (uint32_t root = 0; root < GetParam(); ++root) {
      std::vector<int> data(20'000, rank == root ? static_cast<int>(root) : -1);
      ASSERT_TRUE(collectives.Broadcast(data.data(), data.size() * sizeof(int), root).ok());
      EXPECT_EQ(data, std::vector<int>(20'000, static_cast<int>(root)));
    }
  });
}

TEST_P(OfRanks, Combines) {
  const int ranks = static_cast<int>(GetParam());
  Run([&](Collectives& collectives, uint32_t rank) {
    const std::vector<int> own = {static_cast<int>(rank), 1};
    for (uint32_t root = 0; root < GetParam(); ++root) {
      std::vector<int> data = own;
      ASSERT_TRUE(collectives.Reduce(data.data(), 2, sizeof(int), CombineOf(FMI_INT, FMI_SUM), root).ok());
      if (rank == root) {
        EXPECT_EQ(data, (std::vector<int>{ranks * (ranks - 1) / 2, ranks}));
      }
    }
    std::vector<int> data = own;
    ASSERT_TRUE(collectives.Allreduce(data.data(), 2, sizeof(int), CombineOf(FMI_INT, FMI_MAX)).ok());
    EXPECT_EQ(data, (std::vector<int>{ranks - 1, 1}));
  });
}

TEST_P(OfRanks, GathersInTheOrderOfRanks) {
  Run([&](Collectives& collectives, uint32_t rank) {
    std::vector<uint32_t> all(GetParam(), 77);
    ASSERT_TRUE(collectives.Gather(&rank, rank == 0 ? all.data() : nullptr, sizeof rank, 0).ok());
    if (rank != 0) {
      EXPECT_EQ(all, std::vector<uint32_t>(GetParam(), 77));
    }
    ASSERT_TRUE(collectives.Allgather(&rank, all.data(), sizeof rank).ok());
    for (uint32_t other = 0; other < GetParam(); ++other) EXPECT_EQ(all[other], other);
  });
}

// Sums of these numbers depend on the order; ranks arrive in another one each time.
TEST_P(OfRanks, CombinesToTheSameBitEachTime) {
  std::vector<double> sums;
  std::mutex mutex;
  Run([&](Collectives& collectives, uint32_t rank) {
    for (int round = 0; round < 50; ++round) {
      double sum = 1.0 / (3 + rank) * (rank % 2 == 0 ? 1e10 : -1e10) + 0.1 * rank;
      if ((round + rank) % 3 == 0) std::this_thread::yield();
      ASSERT_TRUE(collectives.Allreduce(&sum, 1, sizeof sum, CombineOf(FMI_DOUBLE, FMI_SUM)).ok());
      const std::lock_guard lock(mutex);
      sums.push_back(sum);
    }
  });
  for (const double sum : sums) EXPECT_EQ(sum, sums.front());
}

// into = into then from, as digits; what is in `from` afterwards does not count.
void Append(void* into, void* from, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    auto& digits = static_cast<uint64_t*>(into)[i];
    auto& more = static_cast<uint64_t*>(from)[i];
    for (uint64_t left = more; left > 0; left /= 10) digits *= 10;
    digits += more;
    more = 999;
  }
}

TEST_P(OfRanks, CombinesInTheOrderOfRanks) {
  std::vector<uint64_t> until(GetParam() + 1);
  for (uint32_t rank = 0; rank < GetParam(); ++rank) until[rank + 1] = until[rank] * 10 + rank + 1;
  Run([&](Collectives& collectives, uint32_t rank) {
    for (uint32_t root = 0; root < GetParam(); ++root) {
      uint64_t data = rank + 1;
      ASSERT_TRUE(collectives.ReduceInOrder(&data, 1, sizeof data, Append, root).ok());
      if (rank == root) {
        EXPECT_EQ(data, until.back());
      }
    }
    uint64_t data = rank + 1;
    ASSERT_TRUE(collectives.Allreduce(&data, 1, sizeof data, Append).ok());
    EXPECT_EQ(data, until.back());
    data = rank + 1;
    ASSERT_TRUE(collectives.Scan(&data, 1, sizeof data, Append).ok());
    EXPECT_EQ(data, until[rank + 1]);
    data = rank + 1;
    ASSERT_TRUE(collectives.Exscan(&data, 1, sizeof data, Append).ok());
    EXPECT_EQ(data, rank == 0 ? 1 : until[rank]);
    // Rank r gets r numbers.
    Collectives::Offsets offsets{0};
    for (uint32_t other = 0; other < GetParam(); ++other) offsets.push_back(offsets.back() + other * sizeof data);
    std::vector<uint64_t> all(offsets.back() / sizeof data, rank + 1), own(rank + 1, 7);
    ASSERT_TRUE(collectives.ReduceScatter(all.data(), all.size(), sizeof data, Append, offsets, own.data()).ok());
    std::vector<uint64_t> expected(rank, until.back());
    expected.push_back(7);
    EXPECT_EQ(own, expected);
  });
}

INSTANTIATE_TEST_SUITE_P(Collectives, OfRanks, ::testing::Values(1, 2, 3, 4, 7, 8));

TEST(Collectives, NameRanksThatMakeDifferentCalls) {
  Board board = NewBoard(2);
  RunRanks(&board, [](Messenger& messenger) {
    Collectives collectives(CommunicatorChannel(&messenger, Context::kCollective));
    int data = 0;
    if (messenger.rank() == 1) {
      ASSERT_TRUE(messenger.Send(Context::kCollective, 0, 1, &data, sizeof data).ok());  // as a broadcast's
      return;
    }
    const Status status = collectives.Reduce(&data, 2, sizeof data, CombineOf(FMI_INT, FMI_SUM), 0);
    EXPECT_EQ(status.message(),
              "ranks do not make the same call: this one is in a reduction of 8 bytes, rank 1 in a broadcast of 4");
  });
}

TEST(Datatypes, CombineAsTheirNamesSay) {
  double data[] = {2, -3};
  const double other[] = {5, 7};
  CombineOf(FMI_DOUBLE, FMI_PROD)(data, other, 2);
  EXPECT_EQ(data[0], 10);
  EXPECT_EQ(data[1], -21);
  CombineOf(FMI_DOUBLE, FMI_MIN)(data, other, 2);
  EXPECT_EQ(data[0], 5);
  EXPECT_EQ(CombineOf(FMI_BYTE, FMI_SUM), nullptr);
  EXPECT_EQ(CombineOf(99, FMI_SUM), nullptr);
  EXPECT_EQ(CombineOf(FMI_INT, 99), nullptr);
  EXPECT_EQ(BytesOf(-1), 0u);
}

}  // namespace
}  // namespace kedge::fmi
