#include "tier/calibration_folder.h"

#include <fmt/format.h>

#include <vector>

#include "base/clock.h"
#include "base/crc32c.h"
#include "os/files/files.h"
#include "os/machine/machine.h"
#include "os/machine/storage_device.h"

namespace kedge {
namespace {

constexpr uint64_t kChunkRatioMax = 4;
constexpr std::string_view kCalibrationTag = "calibration";
constexpr Duration kAbandonedAfter = std::chrono::hours(1);

// What killed processes have left half written.
void RemoveAbandoned(os::FileSystem& fs, const std::string& folder) {
  const auto entries = fs.List(folder);
  if (!entries.ok()) return;
  for (const os::FolderEntry& entry : *entries) {
    std::string tag;
    if (!os::IsTemporaryName(entry.name, &tag) || tag != kCalibrationTag) continue;
    const std::string path = os::JoinPath(folder, entry.name);
    const auto info = fs.Stat(path);
    if (info.ok() && WallTimeNs() - info->modified_ns > kAbandonedAfter.count()) (void)fs.Unlink(path);
  }
}

}  // namespace

CalibrationKey CalibrationKeyOf(TierKind kind, const std::string& path) {
  return {TierKindName(kind), os::DescribeStorage(kind == TierKind::kMemory ? os::ParentPath(path) : path)};
}

std::string CalibrationPath(const std::string& folder, const CalibrationKey& key, CalibrationOrigin origin) {
  const uint32_t hash = crc32c::Compute(key.device.data(), key.device.size());
  return os::JoinPath(folder, fmt::format("{}-{:08x}.{}", key.kind, hash, CalibrationOriginName(origin)));
}

Result<Calibration> LoadCalibration(os::FileSystem& fs, const std::string& folder, const CalibrationKey& key,
                                    CalibrationOrigin origin, uint64_t chunk_bytes) {
  const std::string path = CalibrationPath(folder, key, origin);
  KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, fs.Stat(path));
  if (info.user_id != os::EffectiveUser()) return Status(Code::kPermission, path + " belongs to another user");
  KEDGE_ASSIGN_OR_RETURN(const std::string text, os::ReadFile(fs, path, kCalibrationFileBytesMax));
  auto calibration = ParseCalibration(text);
  if (!calibration.ok()) return calibration.status().WithContext(path);
  if (calibration->kind != key.kind || calibration->device != key.device || calibration->origin != origin) {
    return Status(Code::kMismatch, fmt::format("{} is of {} \"{}\", not of {} \"{}\"", path, calibration->kind,
                                               calibration->device, key.kind, key.device));
  }
  if (chunk_bytes / kChunkRatioMax > calibration->chunk_bytes || calibration->chunk_bytes / kChunkRatioMax > chunk_bytes) {
    return Status(Code::kMismatch, fmt::format("{} was made with chunks of {} bytes; here they have {}", path,
                                               calibration->chunk_bytes, chunk_bytes));
  }
  return calibration;
}

Result<ThroughputCurve> CurveOf(const Calibration& calibration) {
  std::vector<ThroughputSample> samples;
  for (const CalibrationSample& sample : calibration.samples) {
    samples.push_back({sample.writers, static_cast<double>(sample.bytes_per_second)});
  }
  return ThroughputCurve::Fit(std::move(samples));
}

Status SaveCalibration(os::FileSystem& fs, const std::string& folder, const Calibration& calibration) {
  KEDGE_RETURN_IF_ERROR(ValidateCalibration(calibration));
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs, folder, 0700, false));
  const std::string path = CalibrationPath(folder, {calibration.kind, calibration.device}, calibration.origin);
  RemoveAbandoned(fs, folder);
  return os::WriteFileDurably(fs, path, FormatCalibration(calibration), kCalibrationTag);
}

}  // namespace kedge
