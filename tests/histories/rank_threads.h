// The ranks of a simulated launch: each a thread that stands for a process, of which one runs at a time, so that the same
// history takes the same course every time.
//
// A thread gives way only where its rank waits for others, in the bootstrap's calls: then the next rank that can go on does. A
// rank whose process has died comes to no collective call any more; who waits for it is told that the others are gone.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kedge/kedge.h"
#include "tests/histories/rank_calls.h"
#include "tests/histories/simulated_process.h"

namespace kedge::histories {

class RankThreads {
 public:
  // The machine outlives it. Process ids count from `first_id`.
  // Rank r is on node places[r], and `share` is that of a rank, but for its number and theirs.
  RankThreads(SimulatedMachine& machine, const std::vector<int>& places, int launch, Share share, int first_id,
              uint64_t pid_namespace);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // Does `call` on these ranks, and returns when it has ended on all of them; their answers, in this order. One whose process
  // died has none.
  using Call = std::function<Answer(RankCalls& calls, int rank)>;
  std::vector<Answer> Do(const std::vector<int>& ranks, const Call& call);
  std::vector<Answer> DoAll(const Call& call);
  // For RankCalls::Begin on that rank's thread.
  kedge_bootstrap Bootstrap(int rank);

  int size() const { return static_cast<int>(ranks_.size()); }
  SimulatedProcess& process(int rank) { return *ranks_[static_cast<size_t>(rank)]->process; }
  bool AnyDead() const;

 private:
  enum class State { kIdle, kReady, kCollective, kDone };
  struct Rank {
    RankThreads* all = nullptr;
    int number = 0;
    std::unique_ptr<SimulatedProcess> process;
    std::unique_ptr<RankCalls> calls;
    State state = State::kIdle;
    std::condition_variable turn;
    std::string sent;
    bool exchange_failed = false;
    Answer answer;
    std::thread thread;
  };
  static int AllGather(void* user, const void* send, void* receive, size_t bytes);
  static int Broadcast(void* user, void* data, size_t bytes, int root);
  static int Barrier(void* user);
  void Serve(Rank* rank);
  // Comes to a collective call with `sent`, and waits until all have; false: they never will.
  bool Exchange(Rank* rank, std::string sent);
  // Gives the turn to the next rank that can use it.
  void PassOn();
  void WaitForTurn(Rank* rank, std::unique_lock<std::mutex>& lock);

  SimulatedMachine& machine_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::string> gathered_;  // by the last exchange, by rank
  int holder_ = -1;                    // whose turn it is; -1: the world's
  const Call* call_ = nullptr;
  bool stopping_ = false;
};

}  // namespace kedge::histories
