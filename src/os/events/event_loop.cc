#include "os/events/event_loop.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/clock.h"

namespace kedge::os {
namespace {

constexpr uint64_t kWakeId = 1;
constexpr uint64_t kTimerId = 2;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

uint32_t EventsOf(EventLoop::Interest interest) {
  switch (interest) {
    case EventLoop::Interest::kRead: return EPOLLIN | EPOLLRDHUP;
    case EventLoop::Interest::kWrite: return EPOLLOUT;
    case EventLoop::Interest::kReadWrite: return EPOLLIN | EPOLLRDHUP | EPOLLOUT;
    case EventLoop::Interest::kNone: return 0;
  }
  return 0;
}

Status AddToEpoll(int epoll, int fd, uint32_t events, uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return Status::FromErrno(errno, "epoll_ctl(add)");
  return Status::Ok();
}

int64_t After(Duration delay) {
  int64_t at_ns = 0;
  if (__builtin_add_overflow(SystemClock().NowNs(), std::max<int64_t>(delay.count(), 0), &at_ns)) return kNever;
  return at_ns;
}

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::Create() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return Status::FromErrno(errno, "epoll_create1");
  UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer.valid()) return Status::FromErrno(errno, "timerfd_create");
  KEDGE_ASSIGN_OR_RETURN(EventFd wake, EventFd::Create());
  KEDGE_RETURN_IF_ERROR(AddToEpoll(epoll.get(), wake.descriptor(), EPOLLIN, kWakeId));
  KEDGE_RETURN_IF_ERROR(AddToEpoll(epoll.get(), timer.get(), EPOLLIN, kTimerId));
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(timer), std::move(wake)));
}

EventLoop::EventLoop(UniqueFd epoll, UniqueFd timer, EventFd wake)
    : epoll_(std::move(epoll)), timer_fd_(std::move(timer)), wake_(std::move(wake)) {}

EventLoop::~EventLoop() = default;

Result<EventLoop::WatchId> EventLoop::Watch(int fd, Interest interest, std::function<void(Readiness)> callback) {
  const WatchId id = next_id_++;
  KEDGE_RETURN_IF_ERROR(AddToEpoll(epoll_.get(), fd, EventsOf(interest), id));
  watches_.emplace(id, std::make_shared<Watched>(Watched{fd, std::move(callback)}));
  return id;
}

Status EventLoop::ChangeInterest(WatchId id, Interest interest) {
  const auto found = watches_.find(id);
  if (found == watches_.end()) return Status(Code::kNotFound, "no such watch");
  epoll_event event{};
  event.events = EventsOf(interest);
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second->fd, &event) == 0) return Status::Ok();
  return Status::FromErrno(errno, "epoll_ctl(mod)");
}

void EventLoop::Unwatch(WatchId id) {
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second->fd, nullptr);
  watches_.erase(found);
}

EventLoop::TimerId EventLoop::Insert(int64_t at_ns, Timer timer) {
  const TimerId id = timer.id;
  timers_by_id_[id] = timers_.emplace(at_ns, std::move(timer));
  return id;
}

EventLoop::TimerId EventLoop::AddTimer(Duration delay, std::function<void()> callback) {
  return Insert(After(delay), Timer{next_id_++, Duration::zero(), std::move(callback)});
}

EventLoop::TimerId EventLoop::AddPeriodic(Duration period, std::function<void()> callback) {
  KEDGE_CHECK(period > Duration::zero());
  return Insert(After(period), Timer{next_id_++, period, std::move(callback)});
}

void EventLoop::CancelTimer(TimerId id) {
  const auto found = timers_by_id_.find(id);
  if (found == timers_by_id_.end()) return;
  timers_.erase(found->second);
  timers_by_id_.erase(found);
}

void EventLoop::Post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  wake_.Signal();
}

void EventLoop::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.Signal();
}

bool EventLoop::TakeStop() {
  const std::lock_guard lock(mutex_);
  return std::exchange(stop_, false);
}

// Only the timers that are due when the turn begins: a callback that adds a due timer must not starve the descriptors.
void EventLoop::RunTimers() {
  const int64_t now_ns = SystemClock().NowNs();
  std::vector<TimerId> due;
  for (auto timer = timers_.begin(); timer != timers_.end() && timer->first <= now_ns; ++timer) due.push_back(timer->second.id);
  for (const TimerId id : due) {
    const auto found = timers_by_id_.find(id);
    if (found == timers_by_id_.end()) continue;  // cancelled by an earlier one
    Timer timer = std::move(found->second->second);
    const int64_t was_due_ns = found->second->first;
    timers_.erase(found->second);
    timers_by_id_.erase(found);
    if (timer.period == Duration::zero()) {
      timer.callback();
      continue;
    }
    const int64_t period_ns = timer.period.count();
    const int64_t missed = (SystemClock().NowNs() - was_due_ns) / period_ns;
    const auto callback = timer.callback;  // the callback may cancel its own timer
    Insert(was_due_ns + (missed + 1) * period_ns, std::move(timer));
    callback();
  }
}

void EventLoop::RunPosted() {
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(posted_);
  }
  for (const auto& item : work) item();
}

// The timer descriptor holds the next timer's time, or the end of the turn when that is earlier.
Status EventLoop::ArmTimer(Duration timeout) {
  int64_t at_ns = timeout == Duration::max() ? kNever : After(timeout);
  if (!timers_.empty()) at_ns = std::min(at_ns, timers_.begin()->first);
  if (at_ns == armed_ns_) return Status::Ok();
  itimerspec setting{};
  if (at_ns != kNever) {
    setting.it_value.tv_sec = at_ns / 1'000'000'000;
    setting.it_value.tv_nsec = at_ns % 1'000'000'000;
  }
  if (timerfd_settime(timer_fd_.get(), TFD_TIMER_ABSTIME, &setting, nullptr) != 0) {
    return Status::FromErrno(errno, "timerfd_settime");
  }
  armed_ns_ = at_ns;
  return Status::Ok();
}

Status EventLoop::RunOnce(Duration timeout) {
  KEDGE_RETURN_IF_ERROR(ArmTimer(timeout));
  epoll_event events[64];
  const int count = epoll_wait(epoll_.get(), events, static_cast<int>(std::size(events)), timeout <= Duration::zero() ? 0 : -1);
  if (count < 0) return errno == EINTR ? Status::Ok() : Status::FromErrno(errno, "epoll_wait");
  for (int i = 0; i < count; ++i) {
    const uint64_t id = events[i].data.u64;
    if (id == kWakeId) {
      wake_.Drain();
    } else if (id == kTimerId) {
      uint64_t expirations = 0;
      static_cast<void>(!read(timer_fd_.get(), &expirations, sizeof expirations));
      armed_ns_ = 0;
    } else if (const auto found = watches_.find(id); found != watches_.end()) {
      const std::shared_ptr<Watched> watched = found->second;  // the callback may unwatch itself
      const uint32_t ready = events[i].events;
      watched->callback(
          {(ready & (EPOLLIN | EPOLLRDHUP | EPOLLHUP)) != 0, (ready & EPOLLOUT) != 0, (ready & (EPOLLHUP | EPOLLERR)) != 0});
    }
  }
  RunTimers();
  RunPosted();
  return Status::Ok();
}

Status EventLoop::Run() {
  while (!TakeStop()) KEDGE_RETURN_IF_ERROR(RunOnce(Duration::max()));
  return Status::Ok();
}

}  // namespace kedge::os
