#include "base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>

#include "base/clock.h"

namespace kedge {
namespace {

constexpr int kNotRead = -1;

// Global: a log belongs to the process.
struct LogState {
  std::atomic<int> level{kNotRead};
  // Where lines go; kNoDescriptor means to the callback.
  std::atomic<int> descriptor{STDERR_FILENO};
  std::mutex mutex;  // guards what follows, and runs the callback in one thread at a time
  int file_descriptor = -1;
  std::function<void(LogLevel, std::string_view)> callback;
};
constexpr int kNoDescriptor = -1;

LogState& State() {
  static LogState* const state = new LogState;  // never destroyed: threads may log while the process exits
  return *state;
}

std::optional<LogLevel> LevelFromEnvironment() {
  const char* text = std::getenv("KEDGE_LOG");
  return text == nullptr ? std::nullopt : ParseLogLevel(text);
}

void WriteLine(int descriptor, std::string line) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = write(descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a log that cannot be written has nowhere to say so
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

void AppendEscaped(std::string& line, std::string_view message) {
  for (const char c : message) {
    if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
}

}  // namespace

std::optional<LogLevel> ParseLogLevel(std::string_view text) {
  for (int level = 0; level <= static_cast<int>(LogLevel::kOff); ++level) {
    if (text == LogLevelName(static_cast<LogLevel>(level))) return static_cast<LogLevel>(level);
  }
  return std::nullopt;
}

const char* LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
    case LogLevel::kOff: return "off";
  }
  return "unknown";
}

void SetLogLevel(LogLevel level) {
  State().level.store(static_cast<int>(level), std::memory_order_relaxed);
}

void SetDefaultLogLevel(LogLevel level) {
  SetLogLevel(LevelFromEnvironment().value_or(level));
}

LogLevel GetLogLevel() {
  int level = State().level.load(std::memory_order_relaxed);
  if (level == kNotRead) {
    level = static_cast<int>(LevelFromEnvironment().value_or(LogLevel::kWarning));
    int expected = kNotRead;
    if (!State().level.compare_exchange_strong(expected, level)) level = expected;
  }
  return static_cast<LogLevel>(level);
}

void LogToStderr() {
  State().descriptor.store(STDERR_FILENO);
}

Status LogToDescriptor(int descriptor) {
  if (descriptor < 0) return Status::FromErrno(EBADF, "log to a file");
  LogState& state = State();
  const std::lock_guard lock(state.mutex);
  if (state.file_descriptor < 0) {
    state.file_descriptor = descriptor;
  } else {
    // Another thread may be writing to the old file right now: replace it under the same number.
    const int replaced = dup3(descriptor, state.file_descriptor, O_CLOEXEC);
    const int error = errno;
    close(descriptor);
    if (replaced < 0) return Status::FromErrno(error, "log to a file");
  }
  state.descriptor.store(state.file_descriptor);
  return Status::Ok();
}

void LogToCallback(std::function<void(LogLevel, std::string_view)> sink) {
  LogState& state = State();
  const std::lock_guard lock(state.mutex);
  state.callback = std::move(sink);
  state.descriptor.store(kNoDescriptor);
}

void WriteLog(LogLevel level, std::string_view component, std::string_view message) {
  std::string line = fmt::format("{} {} {} {}: ", FormatWallTime(WallTimeNs()), LogLevelName(level), getpid(), component);
  AppendEscaped(line, message);
  LogState& state = State();
  const int descriptor = state.descriptor.load();
  if (descriptor != kNoDescriptor) return WriteLine(descriptor, std::move(line));
  const std::lock_guard lock(state.mutex);
  if (state.callback) state.callback(level, line);
}

std::optional<uint64_t> LogRateLimit::Admit(int64_t now_ns) {
  int64_t next_ns = next_ns_.load(std::memory_order_relaxed);
  if (now_ns < next_ns || !next_ns_.compare_exchange_strong(next_ns, now_ns + interval_ns_)) {
    held_back_.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  return held_back_.exchange(0, std::memory_order_relaxed);
}

void WriteLogLimited(LogRateLimit& limit, LogLevel level, std::string_view component, std::string_view message) {
  const auto held_back = limit.Admit(SystemClock().NowNs());
  if (!held_back) return;
  if (*held_back == 0) return WriteLog(level, component, message);
  WriteLog(level, component, fmt::format("{} ({} more like this held back)", message, *held_back));
}

}  // namespace kedge
