// The text of a calibration: as documented, there and back, and refused when anything in it is not as it was written.
#include "format/calibration.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/random.h"

namespace kedge {
namespace {

Calibration SampleCalibration() {
  Calibration calibration;
  calibration.kind = "directory";
  calibration.device = "ext4, Example SSD 100, 100 GiB";
  calibration.chunk_bytes = 64 << 20;
  calibration.kernel = "6.1.0-18-amd64";
  calibration.wall_time_ns = 1'700'000'000'123 * int64_t{1'000'000};
  calibration.samples = {{1, 120'000'000, 5, 12}, {11, 640'000'000, 7, 18}, {21, 690'000'000, 5, 3}};
  return calibration;
}

TEST(Calibration, TheTextIsTheOneInTheFormatDocument) {
  EXPECT_EQ(FormatCalibration(SampleCalibration()),
            "kedge calibration 1\n"
            "origin measured\n"
            "kind directory\n"
            "device ext4, Example SSD 100, 100 GiB\n"
            "chunk 67108864\n"
            "kernel 6.1.0-18-amd64\n"
            "unix_ms 1700000000123\n"
            "sample 1 120000000 5 12\n"
            "sample 11 640000000 7 18\n"
            "sample 21 690000000 5 3\n"
            "crc32c 1a07825b\n");
}

TEST(Calibration, ComesBackAsItWas) {
  Calibration calibration = SampleCalibration();
  for (const auto origin : {CalibrationOrigin::kMeasured, CalibrationOrigin::kLearned}) {
    calibration.origin = origin;
    ASSERT_TRUE(ValidateCalibration(calibration).ok());
    const auto parsed = ParseCalibration(FormatCalibration(calibration));
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    EXPECT_EQ(*parsed, calibration);
  }
}

TEST(Calibration, AnyChangedByteAndAnyShorterTextIsRefused) {
  const std::string text = FormatCalibration(SampleCalibration());
  Random random(3);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ (1 << random.Below(8)));
    EXPECT_FALSE(ParseCalibration(changed).ok()) << "byte " << i;
    EXPECT_FALSE(ParseCalibration(text.substr(0, i)).ok()) << i << " bytes";
  }
  EXPECT_FALSE(ParseCalibration(text + "\n").ok());
}

TEST(Calibration, ALaterFormatIsNamed) {
  std::string text = FormatCalibration(SampleCalibration());
  text.replace(text.find('1'), 1, "2");
  const auto parsed = ParseCalibration(text);
  EXPECT_EQ(parsed.status().code(), Code::kUnsupported);
  EXPECT_NE(parsed.status().message().find("kedge calibration 2"), std::string::npos);
}

TEST(Calibration, FieldsOutOfBoundsAreRefusedBothWays) {
  const std::vector<std::function<void(Calibration&)>> changes = {
      [](Calibration& c) { c.device = ""; },
      [](Calibration& c) { c.device = "two\nlines"; },
      [](Calibration& c) { c.kernel = std::string(kCalibrationTextMax + 1, 'k'); },
      [](Calibration& c) { c.chunk_bytes = 0; },
      [](Calibration& c) { c.wall_time_ns = -1'000'000'000; },
      [](Calibration& c) { c.samples.clear(); },
      [](Calibration& c) { c.samples[1].writers = c.samples[0].writers; },
      [](Calibration& c) { c.samples[0].writers = 0; },
      [](Calibration& c) { c.samples[2].writers = kCalibrationWritersMax + 1; },
      [](Calibration& c) { c.samples[0].bytes_per_second = 0; },
      [](Calibration& c) { c.samples[0].bytes_per_second = kCalibrationRateMax + 1; },
      [](Calibration& c) { c.samples[0].rounds = 0; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Calibration calibration = SampleCalibration();
    changes[i](calibration);
    EXPECT_FALSE(ValidateCalibration(calibration).ok()) << i;
    EXPECT_FALSE(ParseCalibration(FormatCalibration(calibration)).ok()) << i;
  }
}

}  // namespace
}  // namespace kedge
