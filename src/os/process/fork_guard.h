// Tells a forked child from the process that made an object, without a system call on each question.
#pragma once

#include "base/status.h"

namespace kedge::os {

// A page that the kernel empties in every child (MADV_WIPEONFORK, since Linux 4.14); where that is missing, the process id is
// asked for each time.
class ForkGuard {
 public:
  static Result<ForkGuard> Create();
  ForkGuard(ForkGuard&& other) noexcept;
  ForkGuard& operator=(ForkGuard&& other) noexcept;
  ~ForkGuard();

  // Whether the calling process is not the one that called Create. Thread safe.
  bool InChild() const;

 private:
  explicit ForkGuard(void* page) : page_(page) {}
  void* page_;
};

}  // namespace kedge::os
