#include "agent/tables/workers.h"

#include <system_error>
#include <utility>

#include "base/log.h"
#include "os/process/thread.h"

namespace kedge {
namespace {
constexpr int kNice = 10;
}

Workers::Workers(uint32_t threads_max, Duration idle_timeout, Priority priority)
    : threads_max_(threads_max), idle_timeout_(idle_timeout), priority_(priority) {}

Workers::~Workers() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  queue_.clear();
  work_came_.notify_all();
  work_ended_.wait(lock, [&] { return threads_.empty(); });
  JoinEnded(lock);
}

void Workers::Serve() {
  if (priority_ == Priority::kLow) {
    (void)os::SetThreadNice(kNice);
    (void)os::SetThreadIoClass(os::IoClass::kBestEffortLow);
  } else {
    (void)os::SetThreadSlice(kAwaitedSlice, os::Slice::kOfItsThreadsToo);
  }
  os::SetThreadName(priority_ == Priority::kLow ? "kedge-flush" : "kedge-serve");
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    const bool has_work = work_came_.wait_for(lock, idle_timeout_, [&] { return stopping_ || !queue_.empty(); }) && !stopping_;
    --idle_;
    if (!has_work) break;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes before it counts as ended
    lock.lock();
    --running_;
    work_ended_.notify_all();
  }
  ended_.push_back(std::move(threads_.extract(std::this_thread::get_id()).mapped()));
  work_ended_.notify_all();
}

void Workers::JoinEnded(std::unique_lock<std::mutex>& lock) {
  std::vector<std::thread> ended = std::exchange(ended_, {});
  lock.unlock();
  for (std::thread& thread : ended) thread.join();
  lock.lock();
}

void Workers::Submit(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  JoinEnded(lock);
  queue_.push_back(std::move(work));
  if (idle_ >= queue_.size() || threads_.size() == threads_max_) {
    work_came_.notify_one();
    return;
  }
  try {
    std::thread thread([this] { Serve(); });
    const std::thread::id id = thread.get_id();
    threads_.emplace(id, std::move(thread));
  } catch (const std::system_error& error) {
    KEDGE_CHECK(!threads_.empty());  // an agent that can start no thread at all is of no use; its successor may be
    LogWarning("agent", "cannot start another flush worker: {}", error.what());
  }
}

bool Workers::WaitIdle(Duration timeout) {
  std::unique_lock lock(mutex_);
  return work_ended_.wait_for(lock, timeout, [&] { return running_ == 0 && queue_.empty(); });
}

uint32_t Workers::threads() const {
  std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(threads_.size());
}

}  // namespace kedge
