#include "agent/gather/writer_count.h"

#include <algorithm>
#include <iterator>

namespace kedge {
namespace {

constexpr double kPeriodSeconds = 0.5, kPeriodSecondsMax = 5;
// Fewer are pieces that came or did not by chance.
constexpr double kPeriodBytes = 16 << 20;
// Others end their images first.
constexpr double kSettleSeconds = 0.3;
constexpr double kGain = 1.05, kGoodEnough = 0.95;
// What is measured at the same number is the same within this, or the world is another one.
constexpr double kSame = 1.5;
constexpr uint32_t kHoldFirst = 8, kHoldMax = 128;

}  // namespace

WriterCount::WriterCount(Bounds bounds)
    : bounds_(bounds), now_(std::clamp(bounds.first, bounds.least, bounds.most)), hold_(kHoldFirst) {}

void WriterCount::Set(uint32_t writers) {
  if (writers != now_) settling_seconds_ = 0;
  now_ = writers;
}

void WriterCount::Add(uint64_t bytes, Duration time, bool all_had_work) {
  if (!all_had_work || bounds_.least == bounds_.most) return;
  const double seconds = ToSeconds(time);
  if (settling_seconds_ < kSettleSeconds) {
    settling_seconds_ += seconds;
    return;
  }
  bytes_ += static_cast<double>(bytes);
  seconds_ += seconds;
  if (seconds_ < kPeriodSeconds || (bytes_ < kPeriodBytes && seconds_ < kPeriodSecondsMax)) return;
  const double rate = bytes_ / seconds_;
  bytes_ = seconds_ = 0;
  if (rate > 0) Decide(rate);
}

void WriterCount::Decide(double rate) {
  const auto known = rates_.find(now_);
  if (known != rates_.end() && (rate > known->second * kSame || rate * kSame < known->second)) {
    rates_.clear();
    held_ = 0;
    hold_ = kHoldFirst;
  }
  rates_[now_] = rates_.contains(now_) ? (rates_[now_] + rate) / 2 : rate;

  const auto by_rate = [](const auto& one, const auto& other) { return one.second < other.second; };
  const auto [most, most_rate] = *rates_.rbegin();
  const double rate_below = rates_.size() == 1 ? 0 : std::max_element(rates_.begin(), std::prev(rates_.end()), by_rate)->second;
  if (most < bounds_.most && most_rate >= rate_below * kGain) return Set(std::min(most + std::max(most / 2, 1u), bounds_.most));

  const double best = std::ranges::max_element(rates_, by_rate)->second;
  const auto fewest = std::ranges::find_if(rates_, [&](const auto& entry) { return entry.second >= best * kGoodEnough; });
  const uint32_t below = fewest == rates_.begin() ? bounds_.least - 1 : std::prev(fewest)->first;
  if (fewest->first - below > 1) return Set(below + (fewest->first - below) / 2);

  Set(fewest->first);
  if (++held_ < hold_) return;
  held_ = 0;
  hold_ = std::min(hold_ * 2, kHoldMax);
  rates_ = {{fewest->first, fewest->second}};
  Set(now_ < bounds_.most ? std::min(now_ + std::max(now_ / 2, 1u), bounds_.most) : bounds_.least + (now_ - bounds_.least) / 2);
}

}  // namespace kedge
