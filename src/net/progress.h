// What drives a network's thread besides the fabric: work that other threads hand over, and timers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "os/events/event_fd.h"

namespace kedge::net {

// Work from any thread for the progress thread, in order. Outlives the network in whoever may still post.
class CommandQueue {
 public:
  static Result<std::shared_ptr<CommandQueue>> Create();
  explicit CommandQueue(os::EventFd wake) : wake_(std::move(wake)) {}
  // Dropped after Close.
  void Post(std::function<void()> command);
  std::vector<std::function<void()>> Take();
  void Close();
  int descriptor() const { return wake_.descriptor(); }

 private:
  os::EventFd wake_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::function<void()>> commands_;
  bool closed_ = false;
};

// One thread. A timer that was cancelled never runs, not even when it is due already.
class Timers {
 public:
  using Id = uint64_t;
  // At a time of the system clock.
  Id Add(int64_t at_ns, std::function<void()> callback);
  void Cancel(Id id);
  // INT64_MAX: none.
  int64_t NextNs() const { return timers_.empty() ? INT64_MAX : timers_.begin()->first; }
  void RunDue(int64_t now_ns);

 private:
  struct Timer {
    Id id;
    std::function<void()> callback;
  };
  Id next_id_ = 1;
  std::multimap<int64_t, Timer> timers_;
  std::unordered_map<Id, std::multimap<int64_t, Timer>::iterator> by_id_;
};

}  // namespace kedge::net
