#include "base/duration.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/quantity.h"

namespace kedge {
namespace {

struct DurationUnit {
  std::string_view name;
  int64_t ns;
};
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kDurationMaxNs = 100 * 366 * 24 * int64_t{3600} * kSecondNs;
constexpr DurationUnit kDurationUnits[] = {
    {"", kSecondNs},
    {"ns", 1},
    {"us", 1000},
    {"ms", 1'000'000},
    {"s", kSecondNs},
    {"sec", kSecondNs},
    {"min", 60 * kSecondNs},
    {"h", 3600 * kSecondNs},
    {"d", 86400 * kSecondNs},
};

Status NotADuration(std::string_view text, const char* why) {
  return Status(Code::kInvalidArgument,
                fmt::format("'{}' is not a duration ({}); write a number with an optional unit ns, us, ms, s, min, h or d, "
                            "as in 30s, 5min or 0.5 (seconds)",
                            text, why));
}

}  // namespace

Duration FromSeconds(double seconds) {
  const double ns = seconds * 1e9;
  if (std::isnan(ns)) return Duration::zero();
  if (ns >= 9.2233720368547e18) return Duration::max();
  if (ns <= -9.2233720368547e18) return Duration::min();
  return Duration(std::llround(ns));
}

Result<Duration> ParseDuration(std::string_view text) {
  const auto quantity = ParseQuantity(text);
  if (!quantity) return NotADuration(text, "no number with a unit");
  for (const DurationUnit& unit : kDurationUnits) {
    if (!EqualsIgnoringCase(unit.name, quantity->unit)) continue;
    const double ns = quantity->value * static_cast<double>(unit.ns);
    if (ns > static_cast<double>(kDurationMaxNs)) return NotADuration(text, "more than 100 years");
    if (quantity->is_whole) return Duration(static_cast<int64_t>(quantity->whole) * unit.ns);
    return Duration(std::llround(ns));
  }
  return NotADuration(text, "unknown unit");
}

std::string FormatDuration(Duration duration) {
  const int64_t ns = duration.count();
  if (ns < 0) return "-" + FormatDuration(ns == std::numeric_limits<int64_t>::min() ? Duration::max() : -duration);
  if (ns == 0) return "0 s";
  if (ns < 1000) return fmt::format("{} ns", ns);
  const double seconds = ToSeconds(duration);
  if (ns < 999'500) return fmt::format("{:.3g} us", seconds * 1e6);
  if (ns < 999'500'000) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 9.995) return fmt::format("{:.2f} s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

std::string FormatDurationExact(Duration duration) {
  static constexpr DurationUnit kExact[] = {
      {"h", 3600 * kSecondNs}, {"min", 60 * kSecondNs}, {"s", kSecondNs}, {"ms", 1'000'000}, {"us", 1000}};
  const int64_t ns = duration.count();
  if (ns == 0) return "0s";
  for (const DurationUnit& unit : kExact) {
    if (ns % unit.ns == 0) return fmt::format("{}{}", ns / unit.ns, unit.name);
  }
  return fmt::format("{}ns", ns);
}

}  // namespace kedge
