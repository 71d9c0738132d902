// Waits until one of a few descriptors is readable: for a thread that must look at other things too before it sleeps, and
// so cannot give the wait to an EventLoop.
#pragma once

#include <poll.h>

#include <cstddef>
#include <vector>

#include "base/duration.h"
#include "base/status.h"

namespace kedge::os {

// Returns when one is readable or hung up, when `timeout` has passed (to the nanosecond; zero or less: at once), or when a
// signal came. An empty list just sleeps.
Status WaitReadable(const std::vector<int>& descriptors, Duration timeout);

// The same for a set that is asked often, and also of those to which more can be written.
class PollSet {
 public:
  void Clear() { polled_.clear(); }
  void Add(int descriptor, bool for_writing = false) {
    polled_.push_back({descriptor, static_cast<short>(for_writing ? POLLIN | POLLOUT : POLLIN), 0});
  }
  // Returns when one is ready or `timeout` has passed. A negative descriptor never is.
  void Wait(Duration timeout);
  // Of the one that was added as the `index`-th, from 0.
  bool IsReady(size_t index) const { return polled_[index].revents != 0; }

 private:
  std::vector<pollfd> polled_;
};

}  // namespace kedge::os
