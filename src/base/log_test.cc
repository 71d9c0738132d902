#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/testing/manual_clock.h"

namespace kedge {
namespace {

using namespace std::chrono_literals;

class LogTest : public ::testing::Test {
 protected:
  LogTest() {
    LogToCallback([this](LogLevel, std::string_view line) { lines_.emplace_back(line); });
    SetLogLevel(LogLevel::kDebug);
  }
  ~LogTest() override {
    LogToStderr();
    SetLogLevel(LogLevel::kWarning);
  }
  std::vector<std::string> lines_;
};

TEST_F(LogTest, WritesTimeLevelProcessAndComponent) {
  LogWarning("agent", "tier {} is full: {} of {}", "/ssd", 3, 4);
  ASSERT_EQ(lines_.size(), 1u);
  const std::regex form(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning )" + std::to_string(getpid()) +
                        R"( agent: tier /ssd is full: 3 of 4)");
  EXPECT_TRUE(std::regex_match(lines_[0], form)) << lines_[0];
}

TEST_F(LogTest, DropsWhatIsBelowTheLevel) {
  SetLogLevel(LogLevel::kWarning);
  LogDebug("x", "no");
  LogInfo("x", "no");
  LogWarning("x", "yes");
  LogError("x", "yes");
  EXPECT_EQ(lines_.size(), 2u);
  SetLogLevel(LogLevel::kOff);
  LogError("x", "no");
  EXPECT_EQ(lines_.size(), 2u);
}

TEST_F(LogTest, OneEventIsOneLine) {
  LogError("x", "first\nsecond\x1b[31m\r{}", "\t");
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_NE(lines_[0].find("first\\nsecond\\x1b[31m\\x0d\\x09"), std::string::npos) << lines_[0];
}

TEST_F(LogTest, TakesItsLevelFromTheEnvironment) {
  setenv("KEDGE_LOG", "error", 1);
  SetDefaultLogLevel(LogLevel::kInfo);
  EXPECT_EQ(GetLogLevel(), LogLevel::kError);
  setenv("KEDGE_LOG", "loud", 1);
  SetDefaultLogLevel(LogLevel::kInfo);
  EXPECT_EQ(GetLogLevel(), LogLevel::kInfo);
  unsetenv("KEDGE_LOG");
  for (const char* name : {"debug", "info", "warning", "error", "off"}) EXPECT_STREQ(LogLevelName(*ParseLogLevel(name)), name);
  EXPECT_FALSE(ParseLogLevel("Info").has_value());
}

TEST_F(LogTest, AppendsWholeLinesFromManyThreads) {
  char path[] = "/tmp/kedge-log-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  close(fd);
  const auto log_to_file = [&path] { return LogToDescriptor(open(path, O_WRONLY | O_APPEND | O_CLOEXEC)); };
  ASSERT_TRUE(log_to_file().ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &log_to_file] {
      for (int i = 0; i < 200; ++i) {
        LogInfo("x", "thread {} line {} {}", t, i, std::string(500, 'y'));
        EXPECT_TRUE(t != 0 || i % 50 != 0 || log_to_file().ok());  // reopened meanwhile, as after a rotation
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  LogToStderr();
  std::ifstream file(path);
  std::set<std::string> seen;
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find("thread ");
    ASSERT_NE(at, std::string::npos) << line;
    ASSERT_EQ(line.substr(line.size() - 500), std::string(500, 'y'));
    seen.insert(line.substr(at, line.size() - 500 - at));
  }
  EXPECT_EQ(seen.size(), 800u);
  std::remove(path);
  EXPECT_EQ(LogToDescriptor(-1).errno_value(), EBADF);
}

TEST_F(LogTest, CallsBackOneThreadAtATime) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) LogInfo("x", "{}", i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines_.size(), 400u);
}

TEST(LogRateLimit, LetsOneThroughEachInterval) {
  LogRateLimit limit(10s);
  testing::ManualClock clock;
  EXPECT_EQ(limit.Admit(clock.NowNs()), 0u);
  EXPECT_EQ(limit.Admit(clock.NowNs()), std::nullopt);
  clock.Advance(9s);
  EXPECT_EQ(limit.Admit(clock.NowNs()), std::nullopt);
  clock.Advance(1s);
  EXPECT_EQ(limit.Admit(clock.NowNs()), 2u) << "held back since";
  clock.Advance(100s);
  EXPECT_EQ(limit.Admit(clock.NowNs()), 0u);
}

TEST_F(LogTest, LimitedLinesSayWhatWasHeldBack) {
  LogRateLimit limit(100ms);
  for (int i = 0; i < 50; ++i) LogLimited(limit, LogLevel::kWarning, "x", "again {}", i);
  std::this_thread::sleep_for(150ms);
  LogLimited(limit, LogLevel::kWarning, "x", "last");
  EXPECT_LT(lines_.size(), 50u);
  EXPECT_NE(lines_.back().find("held back"), std::string::npos) << lines_.back();
}

TEST(Clock, AdvancesAndFormats) {
  const int64_t before_ns = SystemClock().NowNs();
  EXPECT_LE(before_ns, SystemClock().NowNs());
  EXPECT_EQ(FormatWallTime(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(FormatWallTime(1'763'704'681'250'999'999), "2025-11-21T05:58:01.250Z");
  EXPECT_EQ(FormatWallTime(-1), "1969-12-31T23:59:59.999Z");
  EXPECT_GT(WallTimeNs(), int64_t{1'700'000'000} * 1'000'000'000);
}

TEST(Clock, DeadlinesEndAndNeverOverflow) {
  testing::ManualClock clock(INT64_MAX / 2);
  const Deadline soon(clock, 5s);
  EXPECT_EQ(soon.Remaining(), 5s);
  clock.Advance(4s);
  EXPECT_FALSE(soon.Passed());
  clock.Advance(2s);
  EXPECT_TRUE(soon.Passed());
  EXPECT_EQ(soon.Remaining(), 0s);
  const Deadline never(clock, Duration::max());
  EXPECT_FALSE(never.Passed());
}

}  // namespace
}  // namespace kedge
