// A counter that another thread or process can raise to wake an event loop: eventfd(2).
#pragma once

#include "base/status.h"
#include "os/files/unique_fd.h"

namespace kedge::os {

class EventFd {
 public:
  static Result<EventFd> Create();
  // One that came through a socket.
  static EventFd FromDescriptor(UniqueFd fd) { return EventFd(std::move(fd)); }
  // Never blocks; thread safe.
  void Signal() const;
  // Takes all signals; whether there were any. Never blocks.
  bool Drain() const;
  int descriptor() const { return fd_.get(); }

 private:
  explicit EventFd(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace kedge::os
