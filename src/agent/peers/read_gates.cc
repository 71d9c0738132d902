#include "agent/peers/read_gates.h"

#include <algorithm>

#include "base/clock.h"

namespace kedge {

void ReadGates::Close(const Node& node, Duration time) {
  {
    const std::lock_guard lock(mutex_);
    if (time <= Duration::zero()) {
      closed_until_ns_.erase(node);
    } else {
      closed_until_ns_[node] = SystemClock().NowNs() + std::min(time, kClosedMax).count();
    }
  }
  changed_.notify_all();
}

int64_t ReadGates::OpenNs(const Node& node, int64_t now_ns) {
  int64_t open_ns = now_ns;
  for (const Node& each : {Node(), node}) {
    const auto closed = closed_until_ns_.find(each);
    if (closed == closed_until_ns_.end()) continue;
    open_ns = std::max(open_ns, closed->second);
    if (closed->second <= now_ns) closed_until_ns_.erase(closed);
  }
  return open_ns;
}

void ReadGates::WaitFor(const Node& node) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const int64_t now_ns = SystemClock().NowNs();
    const int64_t open_ns = OpenNs(node, now_ns);
    if (open_ns <= now_ns) return;
    changed_.wait_for(lock, Duration(open_ns - now_ns));
  }
}

}  // namespace kedge
