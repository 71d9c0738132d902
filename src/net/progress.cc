#include "net/progress.h"

namespace kedge::net {

Result<std::shared_ptr<CommandQueue>> CommandQueue::Create() {
  KEDGE_ASSIGN_OR_RETURN(os::EventFd wake, os::EventFd::Create());
  return std::make_shared<CommandQueue>(std::move(wake));
}

void CommandQueue::Post(std::function<void()> command) {
  bool first = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    first = commands_.empty();
    commands_.push_back(std::move(command));
  }
  if (first) wake_.Signal();
}

std::vector<std::function<void()>> CommandQueue::Take() {
  wake_.Drain();
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(commands_, {});
}

void CommandQueue::Close() {
  std::vector<std::function<void()>> dropped;  // destroyed after the lock is let go: what they hold may post again
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  dropped.swap(commands_);
}

Timers::Id Timers::Add(int64_t at_ns, std::function<void()> callback) {
  const Id id = next_id_++;
  by_id_[id] = timers_.emplace(at_ns, Timer{id, std::move(callback)});
  return id;
}

void Timers::Cancel(Id id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  timers_.erase(found->second);
  by_id_.erase(found);
}

void Timers::RunDue(int64_t now_ns) {
  while (!timers_.empty() && timers_.begin()->first <= now_ns) {
    const auto first = timers_.begin();
    const std::function<void()> callback = std::move(first->second.callback);
    by_id_.erase(first->second.id);
    timers_.erase(first);
    callback();
  }
}

}  // namespace kedge::net
