// A calibration: how fast one storage device takes chunk-sized writes from so many writers at once ([VeloC] IV-C), with the
// conditions under which that was found. A small text file, for people too (docs/format.md, "Calibration").
//
// The text of a calibration is unique: a parser accepts exactly what FormatCalibration makes, so that a damaged or edited file
// is noticed (its last line is a checksum) and no reader guesses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace kedge {

enum class CalibrationOrigin : uint8_t {
  kMeasured = 1,  // `kedge calibrate`
  kLearned = 2,   // from checkpoints, by an agent
};
const char* CalibrationOriginName(CalibrationOrigin origin);  // "measured", "learned"

struct CalibrationSample {
  uint32_t writers = 0;           // 1 to kCalibrationWritersMax
  uint64_t bytes_per_second = 0;  // of all writers together; at least 1
  uint32_t rounds = 0;            // measurements that went into it; at least 1
  uint32_t spread_permille = 0;   // standard error of their mean, relative
  friend bool operator==(const CalibrationSample&, const CalibrationSample&) = default;
};

inline constexpr uint32_t kCalibrationWritersMax = 4096;
inline constexpr uint32_t kCalibrationSamplesMax = 256;
inline constexpr uint64_t kCalibrationRateMax = uint64_t{1} << 50;
inline constexpr size_t kCalibrationTextMax = 255;
inline constexpr uint64_t kCalibrationFileBytesMax = 32768;

struct Calibration {
  CalibrationOrigin origin = CalibrationOrigin::kMeasured;
  std::string kind;    // "memory", "directory": how the tier is written to
  std::string device;  // os::DescribeStorage: what the calibration is valid for
  uint64_t chunk_bytes = 0;
  std::string kernel;
  int64_t wall_time_ns = 0;                // when
  std::vector<CalibrationSample> samples;  // by writers, ascending, at least one
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

// kInvalidArgument when a field is out of bounds. Texts are printable ASCII, neither empty nor longer than kCalibrationTextMax.
Status ValidateCalibration(const Calibration& calibration);
// REQUIRES: valid. The wall time is kept to milliseconds.
std::string FormatCalibration(const Calibration& calibration);
// kCorrupt says which line is wrong; kUnsupported for a later format.
Result<Calibration> ParseCalibration(std::string_view text);

}  // namespace kedge
