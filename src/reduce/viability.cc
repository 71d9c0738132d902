#include "reduce/viability.h"

namespace kedge::reduce {

namespace {

constexpr uint32_t kRefusalsMax = 32;
constexpr double kNewestWeight = 0.25;
// Below this part of a processor the compressor waits for one. Page faults and the clocks' own error stay above it.
constexpr double kProcessorMin = 0.7;

double BytesPerSecond(const Viability::Sample& sample) {
  const double seconds = ToSeconds(sample.wall);
  return seconds > 0 ? static_cast<double>(sample.bytes) / seconds : 0;
}

}  // namespace

bool Viability::Pays(double saved_fraction, const Sample& trial, double level_bytes_per_second) {
  if (refusals_ >= kRefusalsMax) *this = Viability();
  const double speed = bytes_per_second_ > 0 ? bytes_per_second_ : BytesPerSecond(trial);
  const bool pays = level_bytes_per_second > 0 && !is_busy_ && saved_fraction * speed > level_bytes_per_second;
  refusals_ = pays ? 0 : refusals_ + 1;
  return pays;
}

void Viability::Note(const Sample& sample) {
  const double speed = BytesPerSecond(sample);
  if (speed <= 0) return;
  bytes_per_second_ = bytes_per_second_ > 0 ? (1 - kNewestWeight) * bytes_per_second_ + kNewestWeight * speed : speed;
  is_busy_ = ToSeconds(sample.processor) < kProcessorMin * ToSeconds(sample.wall);
}

}  // namespace kedge::reduce
