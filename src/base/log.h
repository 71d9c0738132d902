// The log: one line for each event, with wall time, level, process and component; to stderr unless told otherwise.
//
//   2026-11-21T05:58:01.250Z warning 4711 agent: tier /ssd is full
//
// A line is written with one write(2), so lines of several processes appended to one file never mix. Thread safe.
// Never stdout. The level is `info` in the agent and `warning` elsewhere, unless KEDGE_LOG names another.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/duration.h"
#include "base/status.h"

namespace kedge {

enum class LogLevel : int { kDebug, kInfo, kWarning, kError, kOff };

// "debug", "info", "warning", "error" or "off".
std::optional<LogLevel> ParseLogLevel(std::string_view text);
const char* LogLevelName(LogLevel level);

// The least level that is written. Starts as KEDGE_LOG says, otherwise warning.
void SetLogLevel(LogLevel level);
// As SetLogLevel, unless KEDGE_LOG is set to a level: what a program calls for its own default.
void SetDefaultLogLevel(LogLevel level);
LogLevel GetLogLevel();

// Where lines go: one of the three, the last call wins.
void LogToStderr();
// To an open file, which the log owns from now on. It should be open with O_APPEND. On an error the log stays where it was,
// and the file is closed.
Status LogToDescriptor(int descriptor);
// `sink` gets whole lines without the newline; it is called by one thread at a time and must not log.
void LogToCallback(std::function<void(LogLevel, std::string_view line)> sink);

// Writes regardless of the level. Control characters in `message` are escaped, so that one event is one line.
void WriteLog(LogLevel level, std::string_view component, std::string_view message);

inline bool LogEnabled(LogLevel level) {
  return level >= GetLogLevel();
}

template <typename... Args>
void LogAt(LogLevel level, std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(level)) WriteLog(level, component, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogDebug(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  LogAt(LogLevel::kDebug, component, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogInfo(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  LogAt(LogLevel::kInfo, component, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogWarning(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  LogAt(LogLevel::kWarning, component, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogError(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  LogAt(LogLevel::kError, component, format, std::forward<Args>(args)...);
}

// Lets one event of a kind through for each interval and counts the others. Thread safe.
class LogRateLimit {
 public:
  explicit LogRateLimit(Duration interval) : interval_ns_(interval.count()) {}
  // Whether to log now; if so, how many were held back since the last time.
  std::optional<uint64_t> Admit(int64_t now_ns);

 private:
  const int64_t interval_ns_;
  std::atomic<int64_t> next_ns_{INT64_MIN};
  std::atomic<uint64_t> held_back_{0};
};

// As LogAt, through a limit; says how many of the kind were held back.
void WriteLogLimited(LogRateLimit& limit, LogLevel level, std::string_view component, std::string_view message);
template <typename... Args>
void LogLimited(LogRateLimit& limit, LogLevel level, std::string_view component, fmt::format_string<Args...> format,
                Args&&... args) {
  if (LogEnabled(level)) WriteLogLimited(limit, level, component, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kedge
