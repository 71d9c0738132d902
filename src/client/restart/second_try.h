// An error that may be of a moment is no reason to go on from an older version, or to say that there is none: what a restart
// asks of the store is asked again, a few times, before the error counts. What has run into its time limit has waited for
// long enough: it is not asked again.
//
// Threads: the calling one, which sleeps in between. Where all ranks do it together, they must do it as often: on a status that
// they have agreed on.
#pragma once

#include <chrono>
#include <thread>

#include "base/status.h"

namespace kedge::client {

inline bool MayPass(const Status& status) {
  const Code code = status.code();
  return code == Code::kUnavailable || code == Code::kNoSpace || code == Code::kTimeout || code == Code::kIo;
}

// `attempt` without arguments returns a Status; what it had to say last.
template <typename Attempt>
Status TryAgain(Attempt attempt) {
  constexpr int kTries = 3;
  constexpr auto kPause = std::chrono::milliseconds(100);
  Status status = attempt();
  for (int tries = 1; tries < kTries && MayPass(status) && status.code() != Code::kTimeout; ++tries) {
    std::this_thread::sleep_for(kPause);
    status = attempt();
  }
  return status;
}

}  // namespace kedge::client
