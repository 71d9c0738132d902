#include "os/testing/modelled_device.h"

#include <algorithm>
#include <cmath>

namespace kedge::os::testing {
namespace {

// What rounding may leave of a transfer, in bytes.
double Rounding(double served) {
  return std::max(1e-3, served * 1e-12);
}

}  // namespace

double ModelledDevice::FactorAt(double second) const {
  const auto after =
      std::upper_bound(shares_.begin(), shares_.end(), second, [](double at, const Share& share) { return at < share.second; });
  return after == shares_.begin() ? 1 : std::prev(after)->factor;
}

double ModelledDevice::NextChange(double second) const {
  const auto after =
      std::upper_bound(shares_.begin(), shares_.end(), second, [](double at, const Share& share) { return at < share.second; });
  return after == shares_.end() ? kNever : after->second;
}

void ModelledDevice::Advance(double now) {
  if (!transfers_.empty()) {
    const double each = total_(transfers()) / transfers();
    for (double at = now_; at < now;) {
      const double until = std::min(now, NextChange(at));
      served_ += each * FactorAt(at) * (until - at);
      at = until;
    }
  }
  now_ = std::max(now_, now);
}

void ModelledDevice::Begin(uint64_t id, double bytes) {
  if (transfers_.empty()) served_ = 0;  // so that digits are not lost over a long time
  transfers_.push({served_ + bytes, ++last_order_, id});
}

double ModelledDevice::NextEnd() const {
  if (transfers_.empty()) return kNever;
  double left = transfers_.top().target - served_;
  if (left <= Rounding(served_)) return now_;
  const double each = total_(transfers()) / transfers();
  for (double at = now_;;) {
    const double rate = each * FactorAt(at);
    const double until = NextChange(at);
    if (rate > 0 && at + left / rate <= until) return std::max(at + left / rate, std::nextafter(now_, kNever));
    if (until == kNever) return kNever;
    left -= rate * (until - at);
    at = until;
  }
}

bool ModelledDevice::TakeEnded(uint64_t* id) {
  if (transfers_.empty() || transfers_.top().target - served_ > Rounding(served_)) return false;
  *id = transfers_.top().id;
  transfers_.pop();
  return true;
}

}  // namespace kedge::os::testing
