#include "os/events/poll_set.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace kedge::os {

Status WaitReadable(const std::vector<int>& descriptors, Duration timeout) {
  std::vector<pollfd> polled;
  polled.reserve(descriptors.size());
  for (const int descriptor : descriptors) polled.push_back({descriptor, POLLIN, 0});
  const int64_t nanoseconds = std::max<int64_t>(timeout.count(), 0);
  const timespec limit{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  if (ppoll(polled.data(), polled.size(), &limit, nullptr) < 0 && errno != EINTR) return Status::FromErrno(errno, "ppoll");
  return Status::Ok();
}

}  // namespace kedge::os
