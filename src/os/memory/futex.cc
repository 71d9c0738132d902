#include "os/memory/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include "base/clock.h"
#include "base/status.h"

namespace kedge::os {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

// Not FUTEX_PRIVATE: the word lies in memory shared between processes.
long Futex(const std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* timeout, uint32_t mask) {
  return syscall(SYS_futex, word, operation, value, timeout, nullptr, mask);
}

}  // namespace

FutexResult FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, Duration timeout) {
  int64_t end_ns = 0;
  const bool endless = __builtin_add_overflow(SystemClock().NowNs(), static_cast<int64_t>(timeout.count()), &end_ns);
  const timespec end = {static_cast<time_t>(end_ns / 1'000'000'000), static_cast<long>(end_ns % 1'000'000'000)};
  for (;;) {
    if (word->load(std::memory_order_acquire) != expected) return FutexResult::kChanged;
    if (timeout <= Duration::zero()) return FutexResult::kTimeout;
    // FUTEX_WAIT_BITSET takes an absolute time on CLOCK_MONOTONIC, so that EINTR does not extend the wait.
    if (Futex(word, FUTEX_WAIT_BITSET, expected, endless ? nullptr : &end, FUTEX_BITSET_MATCH_ANY) == 0) {
      return FutexResult::kWoken;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return FutexResult::kChanged;
    KEDGE_CHECK(errno == ETIMEDOUT);  // anything else means that `word` is no mapped, aligned word
    return FutexResult::kTimeout;
  }
}

int FutexWake(const std::atomic<uint32_t>* word, int waiters) {
  const long woken = Futex(word, FUTEX_WAKE, static_cast<uint32_t>(waiters), nullptr, 0);
  KEDGE_CHECK(woken >= 0);
  return static_cast<int>(woken);
}

int FutexWakeAll(const std::atomic<uint32_t>* word) {
  return FutexWake(word, INT_MAX);
}

}  // namespace kedge::os
