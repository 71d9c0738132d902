// See rank_threads.h.
#include "tests/histories/rank_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace kedge::histories {
namespace {

// In virtual time, which passes for one rank after the other: more than a launch waits for a lease of a minute.
constexpr Duration kRankPatience = std::chrono::seconds(120);

}  // namespace

RankThreads::RankThreads(SimulatedMachine& machine, const std::vector<int>& places, int launch, Share share, int first_id,
                         uint64_t pid_namespace)
    : machine_(machine) {
  share.ranks = static_cast<int>(places.size());
  for (int number = 0; number < static_cast<int>(places.size()); ++number) {
    auto rank = std::make_unique<Rank>();
    rank->all = this;
    rank->number = number;
    rank->process =
        std::make_unique<SimulatedProcess>(machine, first_id + number, places[static_cast<size_t>(number)], pid_namespace);
    share.rank = number;
    rank->calls = std::make_unique<RankCalls>(share, launch);
    ranks_.push_back(std::move(rank));
  }
  for (const auto& rank : ranks_) rank->thread = std::thread([this, one = rank.get()] { Serve(one); });
}

RankThreads::~RankThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& rank : ranks_) rank->turn.notify_all();
  }
  for (const auto& rank : ranks_) rank->thread.join();
}

bool RankThreads::AnyDead() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->process->IsDead(); });
}

std::vector<Answer> RankThreads::DoAll(const Call& call) {
  std::vector<int> all(ranks_.size());
  std::iota(all.begin(), all.end(), 0);
  return Do(all, call);
}

std::vector<Answer> RankThreads::Do(const std::vector<int>& ranks, const Call& call) {
  const int64_t begun_ns = machine_.NowNs();
  std::unique_lock lock(mutex_);
  call_ = &call;
  for (const auto& rank : ranks_) rank->state = State::kIdle;
  for (const int number : ranks) ranks_[static_cast<size_t>(number)]->state = State::kReady;
  PassOn();
  ended_.wait(lock, [&] { return holder_ < 0; });
  std::vector<Answer> answers;
  for (const int number : ranks) {
    Rank& rank = *ranks_[static_cast<size_t>(number)];
    answers.push_back(rank.answer);
    answers.back().died = rank.process->IsDead();
    const Duration took(machine_.NowNs() - begun_ns);
    if (took <= kRankPatience * ranks_.size()) continue;
    answers.back().came = false;
    answers.back().message = fmt::format("it took {} s", std::chrono::duration_cast<std::chrono::seconds>(took).count());
  }
  return answers;
}

void RankThreads::PassOn() {
  const auto can_go_on = [](const auto& rank) { return rank->state == State::kReady; };
  auto next = std::find_if(ranks_.begin(), ranks_.end(), can_go_on);
  if (next == ranks_.end()) {
    const auto waits = [](const auto& rank) { return rank->state == State::kCollective; };
    const bool all_wait = std::all_of(ranks_.begin(), ranks_.end(), waits);
    if (all_wait) {
      gathered_.clear();
      for (const auto& rank : ranks_) gathered_.push_back(rank->sent);
    }
    for (const auto& rank : ranks_) {
      if (rank->state != State::kCollective) continue;
      rank->exchange_failed = !all_wait;
      rank->state = State::kReady;
    }
    next = std::find_if(ranks_.begin(), ranks_.end(), can_go_on);
  }
  if (next == ranks_.end()) {
    holder_ = -1;
    ended_.notify_all();
  } else {
    holder_ = (*next)->number;
    (*next)->turn.notify_all();
  }
}

void RankThreads::WaitForTurn(Rank* rank, std::unique_lock<std::mutex>& lock) {
  rank->turn.wait(lock, [&] { return holder_ == rank->number || stopping_; });
}

void RankThreads::Serve(Rank* rank) {
  SimulatedProcess::Enter(rank->process.get());
  for (;;) {
    std::unique_lock lock(mutex_);
    WaitForTurn(rank, lock);
    if (stopping_) break;
    const Call& call = *call_;
    lock.unlock();
    Answer answer = call(*rank->calls, rank->number);
    lock.lock();
    rank->answer = std::move(answer);
    rank->state = State::kDone;
    PassOn();
  }
  SimulatedProcess::Enter(nullptr);
}

bool RankThreads::Exchange(Rank* rank, std::string sent) {
  if (rank->process->IsDead()) return false;
  std::unique_lock lock(mutex_);
  rank->sent = std::move(sent);
  rank->state = State::kCollective;
  PassOn();
  WaitForTurn(rank, lock);
  return !rank->exchange_failed && !stopping_;
}

kedge_bootstrap RankThreads::Bootstrap(int rank) {
  kedge_bootstrap bootstrap{};
  bootstrap.struct_size = sizeof bootstrap;
  bootstrap.user = ranks_[static_cast<size_t>(rank)].get();
  bootstrap.rank = rank;
  bootstrap.ranks = static_cast<int>(ranks_.size());
  bootstrap.allgather = AllGather;
  bootstrap.broadcast = Broadcast;
  bootstrap.barrier = Barrier;
  return bootstrap;
}

int RankThreads::AllGather(void* user, const void* send, void* receive, size_t bytes) {
  Rank* const rank = static_cast<Rank*>(user);
  if (!rank->all->Exchange(rank, std::string(static_cast<const char*>(send), bytes))) return 1;
  const std::vector<std::string>& gathered = rank->all->gathered_;
  for (size_t i = 0; i < gathered.size(); ++i) {
    if (gathered[i].size() != bytes) return 1;
    std::memcpy(static_cast<char*>(receive) + i * bytes, gathered[i].data(), bytes);
  }
  return 0;
}

int RankThreads::Broadcast(void* user, void* data, size_t bytes, int root) {
  Rank* const rank = static_cast<Rank*>(user);
  const bool sends = rank->number == root;
  if (!rank->all->Exchange(rank, sends ? std::string(static_cast<const char*>(data), bytes) : std::string())) return 1;
  const std::string& sent = rank->all->gathered_[static_cast<size_t>(root)];
  if (sent.size() != bytes) return 1;
  std::memcpy(data, sent.data(), bytes);
  return 0;
}

int RankThreads::Barrier(void* user) {
  Rank* const rank = static_cast<Rank*>(user);
  return rank->all->Exchange(rank, {}) ? 0 : 1;
}

}  // namespace kedge::histories
