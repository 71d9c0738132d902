// What ranks of any speed hear at the same call, and a broadcast that fails.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/checkpoint/pace.h"
#include "client/core/ledger.h"
#include "client/session/agent_session.h"
#include "client/testing/make_core.h"
#include "os/testing/simulated_file_system.h"

namespace kedge::client {
namespace {

using os::testing::SimulatedFileSystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Ranks that are threads, and a broadcast of which the first rank waits for nobody, as over MPI.
class PaceTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;

  // What a rank has of Kedge where it has no agent.
  struct Rank {
    std::unique_ptr<Core> core;
    std::unique_ptr<Ledger> ledger;
    std::unique_ptr<AgentSession> session;
    std::unique_ptr<Pace> pace;

    bool IsDue() {
      std::unique_lock lock(core->mutex);
      return pace->IsDue(lock).value();
    }
    Status Ask() {
      std::unique_lock lock(core->mutex);
      return pace->IsDue(lock).status();
    }
  };

  // On each rank what `body` makes of it, after init. The interval is that of rank 0; the others have other ones.
  void Run(Duration interval, const std::function<void(Rank&)>& body) {
    std::vector<std::thread> threads;
    for (uint32_t number = 0; number < kRanks; ++number) {
      threads.emplace_back([&, number] {
        Rank rank = MakeRank(number, interval);
        ASSERT_TRUE(rank.pace->Start().ok());
        if (number == 0) init_broadcasts_ = broadcasts();
        meeting_.arrive_and_wait();
        body(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // Since init.
  size_t asked() const { return broadcasts() - init_broadcasts_; }
  bool AllHaveHeardAll() const { return places_[1].heard == broadcasts() && places_[2].heard == broadcasts(); }

  std::barrier<> meeting_{kRanks};
  // Of which rank a broadcast fails, and every later one with it; kRanks: of none.
  std::atomic<uint32_t> broken_{kRanks};

 private:
  struct Place {
    PaceTest* all;
    uint32_t rank;
    size_t heard = 0;
  };

  Rank MakeRank(uint32_t number, Duration interval) {
    kedge_bootstrap face{};
    face.struct_size = sizeof face;
    face.user = &places_[number];
    face.rank = static_cast<int>(number);
    face.ranks = kRanks;
    face.allgather = [](void* user, const void* send, void* receive, size_t bytes) {
      return static_cast<Place*>(user)->all->Gather(static_cast<Place*>(user)->rank, send, receive, bytes);
    };
    face.broadcast = [](void* user, void* data, size_t bytes, int) {
      auto& place = *static_cast<Place*>(user);
      return place.all->Broadcast(place, data, bytes);
    };
    face.barrier = [](void*) { return 0; };
    Rank rank;
    rank.core = testing::MakeStartedCore(folders_[number], Collective(face));
    rank.core->job.keys.schedule_interval = number == 0 ? interval : number * std::chrono::hours(1);
    rank.ledger = std::make_unique<Ledger>(rank.core->catalog->id(), "job", 1, std::map<std::string, int64_t>());
    rank.session = std::make_unique<AgentSession>(rank.core.get(), rank.ledger.get());
    rank.pace = std::make_unique<Pace>(rank.core.get(), rank.session.get());
    return rank;
  }
  int Broadcast(Place& place, void* data, size_t bytes) {
    if (place.rank == broken_) return 7;
    std::unique_lock lock(mutex_);
    if (place.rank == 0) {
      sent_.emplace_back(static_cast<const char*>(data), bytes);
      changed_.notify_all();
      return 0;
    }
    if (!changed_.wait_for(lock, seconds(30), [&] { return sent_.size() > place.heard; })) return 8;
    std::memcpy(data, sent_[place.heard++].data(), bytes);
    return 0;
  }
  int Gather(uint32_t rank, const void* send, void* receive, size_t bytes) {
    parts_[rank].assign(static_cast<const char*>(send), bytes);
    meeting_.arrive_and_wait();
    for (uint32_t from = 0; from < kRanks; ++from)
      std::memcpy(static_cast<char*>(receive) + from * bytes, parts_[from].data(), bytes);
    meeting_.arrive_and_wait();
    return 0;
  }
  size_t broadcasts() const {
    const std::lock_guard lock(mutex_);
    return sent_.size();
  }

  SimulatedFileSystem folders_[kRanks];
  Place places_[kRanks] = {{this, 0}, {this, 1}, {this, 2}};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> sent_;
  std::string parts_[kRanks];
  size_t init_broadcasts_ = 0;
};

TEST_F(PaceTest, RanksOfAnySpeedHearTheSameAtTheSameCall) {
  std::vector<int> due[kRanks];
  Run(milliseconds(15), [&](Rank& rank) {
    const uint32_t number = rank.core->rank();
    for (int call = 0; call < 600; ++call) {
      if (call % (7 + number) == 0) std::this_thread::sleep_for(milliseconds(1));
      if (!rank.IsDue()) continue;
      due[number].push_back(call);
      EXPECT_TRUE(rank.IsDue()) << "until a checkpoint is begun";
      rank.pace->OnCheckpointBegin();
      rank.pace->OnCheckpointEnd();
    }
  });
  EXPECT_GE(due[0].size(), 2u);
  EXPECT_EQ(due[1], due[0]);
  EXPECT_EQ(due[2], due[0]);
}

TEST_F(PaceTest, CallsThatComeFastAskSeldom) {
  constexpr size_t kCalls = 100'000;
  Run(std::chrono::hours(1), [&](Rank& rank) {
    for (size_t call = 0; call < kCalls; ++call) EXPECT_FALSE(rank.IsDue());
    EXPECT_EQ(rank.core->statistics.checkpoints_not_due, kCalls);
  });
  EXPECT_LT(asked(), kCalls / 16);
  EXPECT_GT(asked(), 0u);
}

TEST_F(PaceTest, ARankWhoseCheckpointWasNotBegunStaysInStep) {
  std::vector<size_t> due(kRanks);
  bool was_taken_back = false;
  Run(milliseconds(100), [&](Rank& rank) {
    const uint32_t number = rank.core->rank();
    for (int call = 0; call < 300; ++call) {
      std::this_thread::sleep_for(milliseconds(1));
      const bool fails = number == 1 && call < 200;
      if (!rank.IsDue()) {
        if (fails && due[1] > 0) was_taken_back = true;  // written by rank 1 alone
        continue;
      }
      ++due[number];
      if (fails) continue;
      rank.pace->OnCheckpointBegin();
      rank.pace->OnCheckpointEnd();
    }
  });
  EXPECT_GE(due[0], 2u);
  EXPECT_EQ(due[2], due[0]);
  EXPECT_TRUE(was_taken_back) << "the others have begun it";
  EXPECT_TRUE(AllHaveHeardAll());
}

TEST_F(PaceTest, WithoutAnIntervalNobodyIsAsked) {
  Run(Duration::zero(), [&](Rank& rank) {
    // Nor does a rank wait for others that do not ask.
    for (int call = 0; rank.core->rank() == 1 && call < 1000; ++call) EXPECT_TRUE(rank.IsDue());
  });
  EXPECT_EQ(asked(), 0u);
}

TEST_F(PaceTest, AfterABroadcastThatFailedEachCallFailsAndWaitsForNobody) {
  Run(std::chrono::hours(1), [&](Rank& rank) {
    const uint32_t number = rank.core->rank();
    EXPECT_TRUE(rank.Ask().ok());
    meeting_.arrive_and_wait();
    if (number == 1) broken_ = 1;
    meeting_.arrive_and_wait();
    Status status;
    for (int call = 0; call < 1000 && (status.ok() || number != 1); ++call) status = rank.Ask();
    EXPECT_EQ(status.code(), number == 1 ? Code::kUnavailable : Code::kOk) << status.ToString();
    meeting_.arrive_and_wait();
    broken_ = kRanks;
    meeting_.arrive_and_wait();
    // Rank 0 says nothing any more; who would ask it now would wait.
    if (number == 1) {
      for (int call = 0; call < 100; ++call) EXPECT_EQ(rank.Ask().code(), Code::kUnavailable);
    }
  });
}

}  // namespace
}  // namespace kedge::client
