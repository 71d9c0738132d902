#include "os/events/event_fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace kedge::os {

Result<EventFd> EventFd::Create() {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return Status::FromErrno(errno, "eventfd");
  return EventFd(std::move(fd));
}

void EventFd::Signal() const {
  const uint64_t one = 1;
  // EAGAIN means that the counter is full: the signal is there already.
  while (write(fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

bool EventFd::Drain() const {
  uint64_t count = 0;
  ssize_t got = 0;
  while ((got = read(fd_.get(), &count, sizeof count)) < 0 && errno == EINTR) {
  }
  return got == sizeof count && count > 0;
}

}  // namespace kedge::os
