// How long reads may pause because an application says that it communicates (kedge_phase): pure arithmetic, on times that it is
// given.
//
// A pause takes from a budget of `bound`, and other times fill it at the same pace. So no pause is longer than the bound, and
// over a long time no more than half of it is paused, whatever the application says. When the budget is spent nothing pauses
// until it is full and the application has said something else since: a hint that is never taken back pauses once.
#pragma once

#include <cstdint>
#include <optional>

#include "base/duration.h"

namespace kedge {

class PauseBudget {
 public:
  // 0: nothing ever pauses.
  explicit PauseBudget(Duration bound) : bound_(bound), left_(bound) {}

  // The application communicates or not, by its hint of that number, and did until now what it said last time. For how long
  // reads may pause from here on; zero: they go on.
  Duration Look(bool communicates, uint64_t hint, int64_t now_ns);
  // All pauses so far.
  Duration paused() const { return paused_; }

 private:
  const Duration bound_;
  Duration left_;
  Duration paused_{};
  std::optional<int64_t> looked_ns_;
  bool is_paused_ = false;
  std::optional<uint64_t> spent_by_;  // the hint at which nothing was left
};

}  // namespace kedge
