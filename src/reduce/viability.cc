#include "reduce/viability.h"

#include <algorithm>

namespace kedge::reduce {

namespace {

constexpr double kNewestWeight = 0.25;
// Below this part of a processor compressors wait for one. Page faults and the clocks' own error stay above it.
constexpr double kProcessorShareMin = 0.7;

double BytesPerSecond(const Viability::Sample& sample) {
  const double seconds = ToSeconds(sample.wall);
  return seconds > 0 ? static_cast<double>(sample.bytes) / seconds : 0;
}

double ProcessorShare(const Viability::Sample& sample) {
  const double seconds = ToSeconds(sample.wall);
  return seconds > 0 ? ToSeconds(sample.processor) / seconds : 0;
}

void Average(double value, double* average) {
  *average = *average > 0 ? (1 - kNewestWeight) * *average + kNewestWeight * value : value;
}

}  // namespace

bool Viability::Tries() {
  if (pause_left_ == 0) return true;
  --pause_left_;
  return false;
}

bool Viability::Pays(double saved_fraction, const Sample& trial, double level_bytes_per_second) {
  const bool is_known = bytes_per_second_ > 0;
  const double speed = is_known ? bytes_per_second_ : BytesPerSecond(trial);
  const double share = is_known ? processor_share_ : ProcessorShare(trial);
  const bool pays = level_bytes_per_second > 0 && share >= kProcessorShareMin && saved_fraction * speed > level_bytes_per_second;
  if (pays) {
    next_pause_ = 1;
  } else {
    bytes_per_second_ = processor_share_ = 0;
    pause_left_ = next_pause_;
    next_pause_ = std::min(2 * next_pause_, kPauseMax);
  }
  return pays;
}

void Viability::Note(const Sample& sample) {
  if (BytesPerSecond(sample) <= 0) return;
  Average(BytesPerSecond(sample), &bytes_per_second_);
  Average(ProcessorShare(sample), &processor_share_);
}

}  // namespace kedge::reduce
