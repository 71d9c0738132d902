// Byte counts and durations: what people write, and what they get to read.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "base/byte_size.h"
#include "base/duration.h"
#include "base/random.h"

namespace kedge {
namespace {

using namespace std::chrono_literals;

TEST(ByteSize, Parses) {
  const std::pair<const char*, uint64_t> cases[] = {
      {"4096", 4096},
      {"0", 0},
      {"64MiB", 64u << 20},
      {"64 mib", 64u << 20},
      {" 64M ", 64u << 20},
      {"1.5GB", 1'500'000'000},
      {"1.5 GiB", 1'610'612'736},
      {"10kB", 10'000},
      {"10k", 10'240},
      {"0.5K", 512},
      {"1PiB", uint64_t{1} << 50},
      {"18446744073709551615", UINT64_MAX},
      {"9007199254740993", 9007199254740993},  // not a double
      {"16777215TiB", uint64_t{16777215} << 40},
  };
  for (const auto& [text, bytes] : cases) {
    const auto parsed = ParseByteSize(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ByteSize, RefusesNamingTextAndForms) {
  for (const char* text : {"", " ", "MiB", "-1", "+1", "1 2", "64 MiBs", "1e3", "0x10", "1..5", "1.", ".5", "1,5GB", "nan", "inf",
                           "18446744073709551616", "16777216TiB", "99999999999999999999PiB", "1\xC3\xA9"}) {
    const auto parsed = ParseByteSize(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
    EXPECT_NE(parsed.status().message().find("'" + std::string(text) + "'"), std::string::npos) << parsed.status().message();
    EXPECT_NE(parsed.status().message().find("64MiB"), std::string::npos) << "names an allowed form";
  }
}

TEST(ByteSize, FormatsForPeople) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(4096), "4096 B");
  EXPECT_EQ(FormatByteSize(10'240), "10.0 KiB");
  EXPECT_EQ(FormatByteSize(64u << 20), "64.0 MiB");
  EXPECT_EQ(FormatByteSize(3u << 29), "1.50 GiB");
  EXPECT_EQ(FormatByteSize((uint64_t{1} << 30) - 1), "1.00 GiB");
  EXPECT_EQ(FormatByteSize(100u << 20), "100 MiB");
  EXPECT_EQ(FormatByteSize(UINT64_MAX), "16.0 EiB");
}

TEST(ByteSize, ExactTextReadsBack) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t bytes = random.Next() >> random.Below(64) << random.Below(10);
    EXPECT_EQ(ParseByteSize(FormatByteSizeExact(bytes)).value(), bytes) << bytes;
  }
  EXPECT_EQ(FormatByteSizeExact(64u << 20), "64MiB");
  EXPECT_EQ(FormatByteSizeExact(1500), "1500B");
  EXPECT_EQ(FormatByteSizeExact(0), "0B");
}

TEST(Durations, Parse) {
  const std::pair<const char*, Duration> cases[] = {
      {"30s", 30s}, {"30", 30s},      {"5min", 5min}, {"0.5", 500ms}, {"1.5 h", 90min},
      {"2d", 48h},  {"250us", 250us}, {"7 NS", 7ns},  {"10ms", 10ms}, {"0", 0s},
  };
  for (const auto& [text, duration] : cases) {
    const auto parsed = ParseDuration(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(parsed->count(), duration.count()) << text;
  }
}

TEST(Durations, RefuseNamingTextAndForms) {
  for (const char* text : {"", "s", "-1s", "5m", "1 week", "40000d", "1e9", "999999999999999999999999s"}) {
    const auto parsed = ParseDuration(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find("'" + std::string(text) + "'"), std::string::npos);
    EXPECT_NE(parsed.status().message().find("30s"), std::string::npos);
  }
}

TEST(Durations, FormatForPeople) {
  EXPECT_EQ(FormatDuration(0s), "0 s");
  EXPECT_EQ(FormatDuration(15ns), "15 ns");
  EXPECT_EQ(FormatDuration(250us), "250 us");
  EXPECT_EQ(FormatDuration(12'340us), "12.3 ms");
  EXPECT_EQ(FormatDuration(1500ms), "1.50 s");
  EXPECT_EQ(FormatDuration(999'900us), "1.00 s");
  EXPECT_EQ(FormatDuration(59'990ms), "1 min 0 s");
  EXPECT_EQ(FormatDuration(330s), "5 min 30 s");
  EXPECT_EQ(FormatDuration(125min), "2 h 5 min");
  EXPECT_EQ(FormatDuration(76h), "3 d 4 h");
  EXPECT_EQ(FormatDuration(-2s), "-2.00 s");
  EXPECT_FALSE(FormatDuration(Duration::min()).empty());
}

TEST(Durations, ExactTextReadsBack) {
  Random random(2);
  for (int i = 0; i < 2000; ++i) {
    const Duration duration(static_cast<int64_t>(random.Below(uint64_t{1} << (random.Below(60) + 1))));
    EXPECT_EQ(ParseDuration(FormatDurationExact(duration)).value().count(), duration.count()) << duration.count();
  }
  EXPECT_EQ(FormatDurationExact(90s), "90s");
  EXPECT_EQ(FormatDurationExact(2h), "2h");
}

TEST(Durations, SecondsSaturate) {
  EXPECT_EQ(FromSeconds(1.5), 1500ms);
  EXPECT_EQ(FromSeconds(1e300), Duration::max());
  EXPECT_EQ(FromSeconds(-1e300), Duration::min());
  EXPECT_EQ(FromSeconds(std::numeric_limits<double>::quiet_NaN()), Duration::zero());
  EXPECT_DOUBLE_EQ(ToSeconds(250ms), 0.25);
}

}  // namespace
}  // namespace kedge
