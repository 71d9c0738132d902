#include "agent/workers.h"

#include <system_error>
#include <thread>

#include "base/log.h"
#include "os/thread.h"

namespace kedge {
namespace {
constexpr int kNice = 10;
}

// Threads are detached and share this: the last one out frees it.
struct Workers::Shared {
  Shared(uint32_t most, Duration timeout, Priority of) : threads_max(most), idle_timeout(timeout), priority(of) {}
  const uint32_t threads_max;
  const Duration idle_timeout;
  const Priority priority;
  std::mutex mutex;
  std::condition_variable work_came;
  std::condition_variable work_ended;
  std::deque<std::function<void()>> queue;
  uint32_t threads = 0;
  uint32_t idle = 0;
  uint32_t running = 0;
  bool stopping = false;

  void Serve() {
    if (priority == Priority::kLow) {
      (void)os::SetThreadNice(kNice);
      (void)os::SetThreadIoClass(os::IoClass::kBestEffortLow);
    }
    os::SetThreadName("kedge-flush");
    std::unique_lock lock(mutex);
    for (;;) {
      ++idle;
      const bool has_work = work_came.wait_for(lock, idle_timeout, [&] { return stopping || !queue.empty(); }) && !stopping;
      --idle;
      if (!has_work) break;
      std::function<void()> work = std::move(queue.front());
      queue.pop_front();
      ++running;
      lock.unlock();
      work();
      work = nullptr;  // what it holds goes before it counts as ended
      lock.lock();
      --running;
      work_ended.notify_all();
    }
    --threads;
    work_ended.notify_all();
  }
};

Workers::Workers(uint32_t threads_max, Duration idle_timeout, Priority priority)
    : shared_(std::make_shared<Shared>(threads_max, idle_timeout, priority)) {}

Workers::~Workers() {
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->queue.clear();
  shared_->work_came.notify_all();
  shared_->work_ended.wait(lock, [&] { return shared_->threads == 0; });
}

void Workers::Submit(std::function<void()> work) {
  std::lock_guard lock(shared_->mutex);
  shared_->queue.push_back(std::move(work));
  if (shared_->idle >= shared_->queue.size() || shared_->threads == shared_->threads_max) {
    shared_->work_came.notify_one();
    return;
  }
  ++shared_->threads;
  try {
    std::thread([shared = shared_] { shared->Serve(); }).detach();
  } catch (const std::system_error& error) {
    --shared_->threads;
    KEDGE_CHECK(shared_->threads > 0);  // an agent that can start no thread at all is of no use; its successor may be
    LogWarning("agent", "cannot start another flush worker: {}", error.what());
  }
}

bool Workers::WaitIdle(Duration timeout) {
  std::unique_lock lock(shared_->mutex);
  return shared_->work_ended.wait_for(lock, timeout, [&] { return shared_->running == 0 && shared_->queue.empty(); });
}

uint32_t Workers::threads() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->threads;
}

}  // namespace kedge
