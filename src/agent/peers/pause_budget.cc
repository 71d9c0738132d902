#include "agent/peers/pause_budget.h"

#include <algorithm>

namespace kedge {

Duration PauseBudget::Look(bool communicates, uint64_t hint, int64_t now_ns) {
  Duration passed(std::max<int64_t>(now_ns - looked_ns_.value_or(now_ns), 0));
  looked_ns_ = now_ns;
  if (is_paused_) {
    const Duration taken = std::min(passed, left_);
    left_ -= taken;
    paused_ += taken;
    passed -= taken;  // whoever pauses goes on by itself when the time is over
    if (left_ == Duration::zero() && !spent_by_) spent_by_ = hint;
  }
  left_ = std::min(left_ + passed, bound_);
  if (spent_by_ && left_ == bound_ && hint != *spent_by_) spent_by_.reset();
  is_paused_ = communicates && !spent_by_ && left_ > Duration::zero();
  return is_paused_ ? left_ : Duration::zero();
}

}  // namespace kedge
