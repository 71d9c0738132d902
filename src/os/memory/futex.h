// Waiting on a word in shared memory without spinning: futex(2), between processes.
//
// The usual form: read the word, check the condition, FutexWait(word, what was read, remaining time), repeat. The waker
// changes the word, then wakes. A woken waiter must check again: wake-ups can be spurious.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/duration.h"

namespace kedge::os {

enum class FutexResult {
  kWoken,    // woken, perhaps spuriously
  kChanged,  // the word did not hold `expected`: nothing was waited for
  kTimeout,
};

// Waits while *word == expected, at most `timeout` (restarted calls do not extend it; zero or less returns at once).
FutexResult FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, Duration timeout);

// Wakes up to `waiters` and returns how many.
int FutexWake(const std::atomic<uint32_t>* word, int waiters);
int FutexWakeAll(const std::atomic<uint32_t>* word);

}  // namespace kedge::os
