#include "os/events/poll_set.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace kedge::os {

namespace {

timespec LimitOf(Duration timeout) {
  const int64_t nanoseconds = std::max<int64_t>(timeout.count(), 0);
  return {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
}

}  // namespace

Status WaitReadable(const std::vector<int>& descriptors, Duration timeout) {
  std::vector<pollfd> polled;
  polled.reserve(descriptors.size());
  for (const int descriptor : descriptors) polled.push_back({descriptor, POLLIN, 0});
  const timespec limit = LimitOf(timeout);
  if (ppoll(polled.data(), polled.size(), &limit, nullptr) < 0 && errno != EINTR) return Status::FromErrno(errno, "ppoll");
  return Status::Ok();
}

void PollSet::Wait(Duration timeout) {
  const timespec limit = LimitOf(timeout);
  if (ppoll(polled_.data(), polled_.size(), &limit, nullptr) > 0) return;
  for (pollfd& polled : polled_) polled.revents = 0;
}

}  // namespace kedge::os
