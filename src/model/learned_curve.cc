#include "model/learned_curve.h"

#include <algorithm>
#include <cmath>

namespace kedge {

// 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, ...: the nearest by ratio.
uint32_t LearnedCurve::GroupOf(double writers) {
  const auto most = static_cast<double>(ThroughputCurve::kWritersMax);
  uint32_t below = 1;
  for (uint32_t above = 2; above <= ThroughputCurve::kWritersMax;) {
    if (writers < std::sqrt(static_cast<double>(below) * above)) return below;
    const bool is_power = (above & (above - 1)) == 0;
    below = above;
    above = is_power ? above + above / 2 : above / 3 * 4;
  }
  return static_cast<uint32_t>(std::min<double>(below, most));
}

void LearnedCurve::Add(double writers, uint64_t bytes, double seconds) {
  if (!(writers >= 0) || !(seconds > 0) || bytes == 0 || !std::isfinite(writers) || !std::isfinite(seconds)) return;
  ++observations_;
  Group& group = groups_[GroupOf(writers)];
  group.writers = GroupOf(writers);
  // A writer that shared the device with 2.2 others on average is taken to the group's number as if the total stayed.
  const double rate = static_cast<double>(bytes) / seconds * std::max(writers, 1.0) / group.writers;
  group.chunks = std::min(group.chunks + 1, UINT32_MAX - 1);
  const double weight = 1.0 / std::min(group.chunks, kFirst);
  const double difference = rate - group.bytes_per_second;
  group.bytes_per_second += weight * difference;
  group.variance = (1 - weight) * (group.variance + weight * difference * difference);
}

void LearnedCurve::Restore(const Group& group) {
  if (group.writers == 0 || group.chunks == 0 || !(group.bytes_per_second > 0)) return;
  Group& restored = groups_[GroupOf(group.writers)];
  restored = group;
  restored.writers = GroupOf(group.writers);
}

std::vector<LearnedCurve::Group> LearnedCurve::Groups() const {
  std::vector<Group> trusted;
  for (const auto& [writers, group] : groups_) {
    if (group.chunks >= kTrusted && group.bytes_per_second > 0) trusted.push_back(group);
  }
  return trusted;
}

std::optional<ThroughputCurve> LearnedCurve::Curve() const {
  std::vector<ThroughputSample> samples;
  for (const Group& group : Groups()) samples.push_back({group.writers, group.bytes_per_second * group.writers});
  if (samples.empty()) return std::nullopt;
  auto curve = ThroughputCurve::Fit(std::move(samples));
  if (!curve.ok()) return std::nullopt;
  return std::move(*curve);
}

}  // namespace kedge
