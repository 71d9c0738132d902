// A single-threaded event loop: descriptors (epoll, level-triggered), timers, and work posted from other threads.
//
// Callbacks run one at a time on the thread that calls Run, and may call everything here, also remove themselves or
// others: a removed watch or timer is never called again, not even for an event already gathered. Callbacks must not
// block for long. Only Post and Stop may be called from other threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "os/events/event_fd.h"
#include "os/files/unique_fd.h"

namespace kedge::os {

struct Readiness {
  bool readable = false;  // data, a new connection, or the end of the stream
  bool writable = false;
  bool hung_up = false;  // EPOLLHUP or EPOLLERR: always reported
};

class EventLoop {
 public:
  using WatchId = uint64_t;
  using TimerId = uint64_t;
  enum class Interest { kRead, kWrite, kReadWrite, kNone };

  static Result<std::unique_ptr<EventLoop>> Create();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // The descriptor stays the caller's and must be unwatched before it is closed.
  Result<WatchId> Watch(int fd, Interest interest, std::function<void(Readiness)> callback);
  Status ChangeInterest(WatchId id, Interest interest);
  void Unwatch(WatchId id);

  // Once, after `delay` (zero or less: in the next turn). Timers that are due run in the order of their times.
  TimerId AddTimer(Duration delay, std::function<void()> callback);
  // Every `period`; turns that were missed are skipped, not made up for.
  TimerId AddPeriodic(Duration period, std::function<void()> callback);
  // Nothing happens when the timer has run or is unknown.
  void CancelTimer(TimerId id);

  // Runs `work` on the loop's thread, in order. Thread safe, also before Run and from callbacks. What was posted and
  // has not run when the loop is destroyed is dropped.
  void Post(std::function<void()> work);

  // Until Stop. The error of epoll_wait, should it fail.
  Status Run();
  // One turn: waits at most `timeout` for something, runs what is due.
  Status RunOnce(Duration timeout);
  // Makes Run return after the callback that runs now; one that comes before Run makes it return at once. Thread safe.
  void Stop();

 private:
  struct Watched {
    int fd;
    std::function<void(Readiness)> callback;
  };
  struct Timer {
    TimerId id;
    Duration period;  // zero: once
    std::function<void()> callback;
  };
  EventLoop(UniqueFd epoll, UniqueFd timer, EventFd wake);
  TimerId Insert(int64_t at_ns, Timer timer);
  Status ArmTimer(Duration timeout);
  void RunTimers();
  void RunPosted();
  bool TakeStop();

  UniqueFd epoll_;
  UniqueFd timer_fd_;
  EventFd wake_;
  int64_t armed_ns_ = 0;
  uint64_t next_id_ = 16;  // small numbers name the loop's own descriptors
  std::unordered_map<WatchId, std::shared_ptr<Watched>> watches_;
  std::multimap<int64_t, Timer> timers_;  // by the time they are due
  std::unordered_map<TimerId, std::multimap<int64_t, Timer>::iterator> timers_by_id_;

  std::mutex mutex_;  // guards what follows
  std::vector<std::function<void()>> posted_;
  bool stop_ = false;
};

}  // namespace kedge::os
