// The agent's workers: threads that block on devices so that the event loop does not.
//
// Elastic: a thread starts when there is work and none is idle, up to a limit, and ends after a while without work. They
// run at low CPU and I/O priority, so that the application keeps both, unless it is the application that waits for them: then
// they get a processor at once, also from ranks that spin.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/duration.h"

namespace kedge {

class Workers {
 public:
  enum class Priority { kLow, kAwaited };
  // Of a thread that somebody waits for (os::SetThreadSlice): it does little at a time.
  static constexpr Duration kAwaitedSlice = std::chrono::microseconds(300);
  explicit Workers(uint32_t threads_max, Duration idle_timeout = std::chrono::seconds(2), Priority priority = Priority::kLow);
  // Waits for the work that runs now; what is queued is dropped. No thread is left.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Thread safe.
  void Submit(std::function<void()> work);
  // Whether nothing runs and nothing is queued any more, waiting at most `timeout` for it.
  bool WaitIdle(Duration timeout);
  uint32_t threads() const;

 private:
  void Serve();
  // Of those that have nothing more to do than to end.
  void JoinEnded(std::unique_lock<std::mutex>& lock);

  const uint32_t threads_max_;
  const Duration idle_timeout_;
  const Priority priority_;
  mutable std::mutex mutex_;
  std::condition_variable work_came_;
  std::condition_variable work_ended_;
  std::deque<std::function<void()>> queue_;
  std::map<std::thread::id, std::thread> threads_;
  std::vector<std::thread> ended_;
  uint32_t idle_ = 0;
  uint32_t running_ = 0;
  bool stopping_ = false;
};

}  // namespace kedge
