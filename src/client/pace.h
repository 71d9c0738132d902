// When the next checkpoint is due: so and so long after the last one ended.
//
// The interval is the agent's when it has one (schedule.adapt), else the configured one. Rank 0's clock decides for
// all, because ranks that decide each for itself would take versions that never become whole. Guarded by the context's
// lock.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/status.h"
#include "client/core.h"
#include "client/session.h"

namespace kedge::client {

class Pace {
 public:
  // Both outlive the pace; the first interval begins now.
  Pace(Core* core, const Session* session);

  // A checkpoint or a restart has ended just now.
  void BeginInterval();
  // Whether the interval is over; always, when there is none. Collective; `lock`, the context's, is let go meanwhile.
  // Fails only when the ranks cannot be reached.
  Result<bool> IsDue(std::unique_lock<std::mutex>& lock);
  // Zero: none.
  Duration interval() const;

 private:
  Core* core_;
  const Session* session_;
  int64_t began_ns_ = 0;
};

}  // namespace kedge::client
