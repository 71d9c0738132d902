// Several ranks in one process: each a thread with a context of its own, which find each other through a bootstrap of threads.
//
//   ThreadRanks(3).Run(options, [](kedge_context* context, int rank) { ... });
//
// All ranks must make the same collective calls, also after an assertion has failed: use EXPECT in the body, not ASSERT.
#pragma once

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kedge/kedge.h"

namespace kedge::testing {

class ThreadRanks {
 public:
  explicit ThreadRanks(int ranks) : ranks_(ranks), barrier_(ranks), sent_(static_cast<size_t>(ranks)) {}

  // What kedge_finalize is asked, and returns on every rank; else no drain, and KEDGE_OK.
  ThreadRanks& ExpectOfFinalize(int drain, int code) {
    drain_ = drain;
    finalized_ = code;
    return *this;
  }

  // The same of one rank, and the others return KEDGE_OK.
  ThreadRanks& ExpectOfFinalizeOn(int rank, int code) {
    failing_rank_ = rank;
    finalized_ = code;
    return *this;
  }

  // Runs `body` on every rank between kedge_init and kedge_finalize. Fails the test when init does.
  void Run(const std::string& overrides, const std::function<void(kedge_context*, int rank)>& body) {
    Run([&](int) { return overrides; }, body);
  }
  // The same with a configuration for each rank: ranks of several virtual nodes.
  void Run(const std::function<std::string(int rank)>& overrides_of, const std::function<void(kedge_context*, int rank)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back([&, rank] {
        Rank self{this, rank};
        kedge_bootstrap bootstrap{};
        bootstrap.struct_size = sizeof bootstrap;
        bootstrap.user = &self;
        bootstrap.rank = rank;
        bootstrap.ranks = ranks_;
        bootstrap.allgather = AllGather;
        bootstrap.broadcast = Broadcast;
        bootstrap.barrier = Barrier;
        kedge_options options = KEDGE_OPTIONS_INIT;
        const std::string overrides = overrides_of(rank);
        options.overrides = overrides.c_str();
        kedge_context* context = nullptr;
        EXPECT_EQ(kedge_init(&options, &bootstrap, &context), KEDGE_OK) << kedge_error_message();
        if (context == nullptr) return;
        body(context, rank);
        const bool is_as_expected = failing_rank_ < 0 || rank == failing_rank_;
        EXPECT_EQ(kedge_finalize(context, drain_), is_as_expected ? finalized_ : KEDGE_OK) << kedge_error_message();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  struct Rank {
    ThreadRanks* all;
    int rank;
  };
  // What every rank sends lies there until all have read it.
  template <typename Read>
  static int Exchange(void* user, const void* send, Read read) {
    const Rank& self = *static_cast<Rank*>(user);
    self.all->sent_[static_cast<size_t>(self.rank)] = send;
    self.all->barrier_.arrive_and_wait();
    read(self.all->sent_);
    self.all->barrier_.arrive_and_wait();
    return 0;
  }
  static int AllGather(void* user, const void* send, void* receive, size_t bytes) {
    return Exchange(user, send, [&](const std::vector<const void*>& sent) {
      for (size_t rank = 0; rank < sent.size(); ++rank)
        std::memcpy(static_cast<char*>(receive) + rank * bytes, sent[rank], bytes);
    });
  }
  static int Broadcast(void* user, void* data, size_t bytes, int root) {
    return Exchange(user, data, [&](const std::vector<const void*>& sent) {
      if (static_cast<Rank*>(user)->rank != root) std::memcpy(data, sent[static_cast<size_t>(root)], bytes);
    });
  }
  static int Barrier(void* user) {
    return Exchange(user, nullptr, [](const std::vector<const void*>&) {});
  }

  const int ranks_;
  int drain_ = 0;
  int finalized_ = KEDGE_OK;
  int failing_rank_ = -1;  // that alone returns that; below 0: all do
  std::barrier<> barrier_;
  std::vector<const void*> sent_;
};

}  // namespace kedge::testing
