// Spans of time: the type that every timeout and interval has, and how people write and read it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/status.h"

namespace kedge {

// Converts implicitly from std::chrono::seconds and the like.
using Duration = std::chrono::nanoseconds;

inline double ToSeconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
// Saturates instead of overflowing.
Duration FromSeconds(double seconds);

// Accepts a non-negative number, whole or with a decimal fraction, with an optional unit: ns, us, ms, s (also without
// a unit), min, h, d. kInvalidArgument names the text and the allowed forms; at most 100 years.
Result<Duration> ParseDuration(std::string_view text);

// For people: "0 s", "250 us", "1.50 s", "5 min 30 s", "2 h 5 min", "3 d 4 h".
std::string FormatDuration(Duration duration);

// Exact, and accepted by ParseDuration: the largest unit that divides it, "30s", "1500ms".
std::string FormatDurationExact(Duration duration);

}  // namespace kedge
