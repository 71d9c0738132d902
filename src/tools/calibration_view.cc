#include "tools/calibration_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "model/throughput_curve.h"
#include "tier/calibration_folder.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

constexpr size_t kPlotRows = 14;
constexpr size_t kAxisWidth = 10;
constexpr uint32_t kCurvePointsMax = 256;

std::string Rate(double bytes_per_second) {
  return fmt::format("{:.0f} MB/s", bytes_per_second * 1e-6);
}

// Points 'o' on a curve of dots; total throughput upwards from 0, writers to the right from 1.
std::string Plot(const ThroughputCurve& curve, size_t width) {
  const size_t columns = std::max<size_t>(width, kAxisWidth + 10) - kAxisWidth;
  const uint32_t last = curve.samples().back().writers;
  double highest = 0;
  for (uint32_t writers = 1; writers <= last; ++writers) highest = std::max(highest, curve.Total(writers));
  std::vector<std::string> rows(kPlotRows, std::string(columns, ' '));
  const auto row_of = [&](double total) {
    const auto step = static_cast<size_t>(std::clamp(total / highest, 0.0, 1.0) * (kPlotRows - 1) + 0.5);
    return kPlotRows - 1 - step;
  };
  const auto column_of = [&](uint32_t writers) { return last == 1 ? 0 : (writers - 1) * (columns - 1) / (last - 1); };
  for (size_t column = 0; column < columns; ++column) {
    const auto writers = static_cast<uint32_t>(1 + (column * (last - 1) + (columns - 1) / 2) / (columns - 1));
    rows[row_of(curve.Total(writers))][column] = '.';
  }
  for (const ThroughputSample& sample : curve.samples()) rows[row_of(sample.bytes_per_second)][column_of(sample.writers)] = 'o';
  std::string text;
  for (size_t row = 0; row < kPlotRows; ++row) {
    const double value = highest * static_cast<double>(kPlotRows - 1 - row) / (kPlotRows - 1);
    std::string line = fmt::format("{:>{}} |{}", row % 3 == 1 || row + 1 == kPlotRows ? fmt::format("{:.0f}", value * 1e-6) : "",
                                   kAxisWidth - 2, rows[row]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  text += std::string(kAxisWidth - 1, ' ') + "+" + std::string(columns, '-') + "\n";
  const std::string right = fmt::format("{} writers", last);
  text += fmt::format("{:>{}}1{:>{}}\n", "MB/s ", kAxisWidth, right, columns - 1);
  return text;
}

void WriteCurve(const Calibration& calibration, JsonWriter& json) {
  json.Key("curve").BeginArray();
  if (const auto curve = CurveOf(calibration); curve.ok()) {
    const uint32_t last = curve->samples().back().writers;
    const uint32_t step = std::max(1u, last / kCurvePointsMax);
    for (uint32_t writers = 1; writers <= last; writers += step) {
      json.BeginObject().Field("writers", writers).Field("bytes_per_second", curve->Total(writers)).EndObject();
    }
  }
  json.EndArray();
}

}  // namespace

std::string CalibrationText(const CalibratedTier& tier, size_t width) {
  std::string text = fmt::format("{}: {} at {}\n  {}\n", tier.name, TierKindName(tier.kind), tier.folder, tier.device);
  if (!tier.calibration.has_value()) return text + fmt::format("  not calibrated: {}\n", tier.why_none);
  const Calibration& calibration = *tier.calibration;
  text += fmt::format("  {} {} with chunks of {}, Linux {}\n\n", CalibrationOriginName(calibration.origin),
                      FormatWallTime(calibration.wall_time_ns).substr(0, 19), FormatByteSize(calibration.chunk_bytes),
                      calibration.kernel);
  Table table({"WRITERS", "TOGETHER", "EACH", "ROUNDS", "SPREAD"}, {true, true, true, true, true});
  for (const CalibrationSample& sample : calibration.samples) {
    const auto total = static_cast<double>(sample.bytes_per_second);
    table.AddRow({fmt::format("{}", sample.writers), Rate(total), Rate(total / sample.writers), fmt::format("{}", sample.rounds),
                  sample.rounds > 1 ? fmt::format("{:.1f}%", sample.spread_permille * 0.1) : "-"});
  }
  text += table.Text();
  if (const auto curve = CurveOf(calibration); curve.ok()) text += "\n" + Plot(*curve, width);
  return text;
}

std::string CalibrationJson(const std::string& folder, const std::vector<CalibratedTier>& tiers) {
  JsonWriter json;
  json.BeginObject().Field("folder", folder).Key("tiers").BeginArray();
  for (const CalibratedTier& tier : tiers) {
    json.BeginObject().Field("name", tier.name).Field("kind", TierKindName(tier.kind)).Field("path", tier.folder);
    json.Field("device", tier.device).Field("calibrated", tier.calibration.has_value());
    if (!tier.calibration.has_value()) {
      json.Field("reason", tier.why_none).EndObject();
      continue;
    }
    const Calibration& calibration = *tier.calibration;
    json.Field("origin", CalibrationOriginName(calibration.origin)).Field("date", FormatWallTime(calibration.wall_time_ns));
    json.Field("chunk_bytes", calibration.chunk_bytes).Field("kernel", calibration.kernel);
    json.Field("file", CalibrationPath(folder, {calibration.kind, calibration.device}, calibration.origin));
    json.Key("samples").BeginArray();
    for (const CalibrationSample& sample : calibration.samples) {
      json.BeginObject().Field("writers", sample.writers).Field("bytes_per_second", sample.bytes_per_second);
      json.Field("rounds", sample.rounds).Field("spread", 1e-3 * sample.spread_permille).EndObject();
    }
    json.EndArray();
    WriteCurve(calibration, json);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.text();
}

}  // namespace kedge::tools
