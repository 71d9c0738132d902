#include "model/flush_meter.h"

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

// A flush that takes this many times as long as the average is late.
constexpr double kLate = 1.25;

}  // namespace

void FlushMeter::Advance(int64_t now_ns) {
  flight_seconds_ += static_cast<double>(std::max<int64_t>(now_ns - now_ns_, 0)) * 1e-9 * in_flight();
  now_ns_ = std::max(now_ns_, now_ns);
}

uint64_t FlushMeter::Begin(uint64_t bytes, uint32_t tier, int64_t now_ns) {
  Advance(now_ns);
  flights_[++last_] = {bytes, tier, now_ns, flight_seconds_};
  of_tier_[tier].insert(last_);
  return last_;
}

void FlushMeter::End(uint64_t flush, bool well, int64_t now_ns) {
  Advance(now_ns);
  const auto found = flights_.find(flush);
  if (found == flights_.end()) return;
  const Flight flight = found->second;
  flights_.erase(found);
  of_tier_[flight.tier].erase(flush);
  if (!well || now_ns <= flight.begin_ns) return;
  average_.Add(flight.bytes, flight.begin_ns, now_ns);
  const double seconds = static_cast<double>(now_ns - flight.begin_ns) * 1e-9;
  const double together = std::max(1.0, (flight_seconds_ - flight.flights_begin) / seconds);
  total_.Add(static_cast<uint64_t>(static_cast<double>(flight.bytes) * together), flight.begin_ns, now_ns);
}

uint32_t FlushMeter::InFlightOf(uint32_t tier) const {
  const auto found = of_tier_.find(tier);
  return found == of_tier_.end() ? 0 : static_cast<uint32_t>(found->second.size());
}

double FlushMeter::expected() const {
  if (total_.count() == 0 || flights_.empty()) return average();
  return std::min(average(), total_.bytes_per_second() / in_flight());
}

double FlushMeter::SecondsToNextEndOf(uint32_t tier, int64_t now_ns) const {
  if (InFlightOf(tier) == 0 || average() <= 0) return 0;
  const Flight& oldest = flights_.at(*of_tier_.at(tier).begin());
  const double age = static_cast<double>(now_ns - oldest.begin_ns) * 1e-9;
  return std::abs(static_cast<double>(oldest.bytes) / expected() - age);
}

double FlushMeter::total(int64_t now_ns) const {
  const double all = total_.count() > 0 ? total_.bytes_per_second() : average() * std::max(1u, in_flight());
  if (flights_.empty() || average() <= 0) return all;
  const Flight& oldest = flights_.begin()->second;
  const double age = static_cast<double>(now_ns - oldest.begin_ns) * 1e-9;
  const double seconds = static_cast<double>(oldest.bytes) / expected();
  return age > kLate * seconds ? all * seconds / age : all;
}

}  // namespace kedge
