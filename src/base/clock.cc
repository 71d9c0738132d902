#include "base/clock.h"

#include <fmt/format.h>

#include <ctime>
#include <limits>

namespace kedge {
namespace {

int64_t ReadClock(clockid_t id) {
  timespec time{};
  clock_gettime(id, &time);
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

class MonotonicClock final : public Clock {
 public:
  int64_t NowNs() const override { return ReadClock(CLOCK_MONOTONIC); }
};

}  // namespace

const Clock& SystemClock() {
  static const MonotonicClock clock;
  return clock;
}

int64_t WallTimeNs() {
  return ReadClock(CLOCK_REALTIME);
}

std::string FormatWallTime(int64_t unix_time_ns) {
  constexpr int64_t kSecondNs = 1'000'000'000;
  int64_t seconds = unix_time_ns / kSecondNs;
  int64_t rest_ns = unix_time_ns % kSecondNs;
  if (rest_ns < 0) {
    rest_ns += kSecondNs;
    --seconds;
  }
  const auto time = static_cast<time_t>(seconds);
  tm utc{};
  gmtime_r(&time, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                     utc.tm_min, utc.tm_sec, rest_ns / 1'000'000);
}

Deadline::Deadline(const Clock& clock, Duration timeout) : clock_(&clock) {
  if (__builtin_add_overflow(clock.NowNs(), static_cast<int64_t>(timeout.count()), &end_ns_)) {
    end_ns_ = std::numeric_limits<int64_t>::max();
  }
}

Duration Deadline::Remaining() const {
  const int64_t now_ns = clock_->NowNs();
  return now_ns >= end_ns_ ? Duration::zero() : Duration(end_ns_ - now_ns);
}

}  // namespace kedge
