// Where calibrations lie: one file for each device and origin in a folder of the user's (placement.calibrations), found by
// tools that measure, and by agents at their start.
//
// A calibration belongs to a device as os::DescribeStorage names it, so that one node's serves all that are built alike and see
// the folder. It is valid while that description stays the same, and for chunks of about the size that it was made with.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "format/calibration.h"
#include "model/throughput_curve.h"
#include "os/files/file_system.h"
#include "tier/tier_info.h"

namespace kedge {

// What a calibration of a tier at `path` (TierInfo::path) must name.
struct CalibrationKey {
  std::string kind;
  std::string device;
};
CalibrationKey CalibrationKeyOf(TierKind kind, const std::string& path);
// "FOLDER/KIND-HASH.ORIGIN".
std::string CalibrationPath(const std::string& folder, const CalibrationKey& key, CalibrationOrigin origin);

// kNotFound when there is none; kCorrupt, kUnsupported when it cannot be read; kMismatch when it is another device's, or its
// chunks are more than four times as large or small; kPermission when the file is another user's.
Result<Calibration> LoadCalibration(os::FileSystem& fs, const std::string& folder, const CalibrationKey& key,
                                    CalibrationOrigin origin, uint64_t chunk_bytes);
// Its samples as the curve that predictions are read from.
Result<ThroughputCurve> CurveOf(const Calibration& calibration);
// Replaces the device's of that origin, durably. Makes the folder (0700). REQUIRES: valid.
Status SaveCalibration(os::FileSystem& fs, const std::string& folder, const Calibration& calibration);

}  // namespace kedge
