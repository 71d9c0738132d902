#include "tools/calibration_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/clock.h"
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

Json SamplesJson(const Calibration& calibration) {
  Json samples = Json::array();
  for (const CalibrationSample& sample : calibration.samples) {
    samples.push_back({{"writers", sample.writers},
                       {"bytes_per_second", sample.bytes_per_second},
                       {"rounds", sample.rounds},
                       {"spread", 1e-3 * sample.spread_permille}});
  }
  return samples;
}

Json CurveJson(const Calibration& calibration) {
  Json points = Json::array();
  const auto curve = CurveOf(calibration);
  if (!curve.ok()) return points;
  const uint32_t last = curve->samples().back().writers;
  const uint32_t step = std::max(1u, last / kCurvePointsMax);
  for (uint32_t writers = 1; writers <= last; writers += step) {
    points.push_back({{"writers", writers}, {"bytes_per_second", curve->Total(writers)}});
  }
  return points;
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

Json CalibrationJson(const std::string& folder, const std::vector<CalibratedTier>& tiers) {
  Json views = Json::array();
  for (const CalibratedTier& tier : tiers) {
    Json& view = views.emplace_back(Json{{"name", tier.name},
                                         {"kind", TierKindName(tier.kind)},
                                         {"path", tier.folder},
                                         {"device", tier.device},
                                         {"calibrated", tier.calibration.has_value()}});
    if (!tier.calibration.has_value()) {
      view["reason"] = tier.why_none;
      continue;
    }
    const Calibration& calibration = *tier.calibration;
    view["origin"] = CalibrationOriginName(calibration.origin);
    view["date"] = FormatWallTime(calibration.wall_time_ns);
    view["chunk_bytes"] = calibration.chunk_bytes;
    view["kernel"] = calibration.kernel;
    view["file"] = CalibrationPath(folder, {calibration.kind, calibration.device}, calibration.origin);
    view["samples"] = SamplesJson(calibration);
    view["curve"] = CurveJson(calibration);
  }
  return {{"folder", folder}, {"tiers", std::move(views)}};
}

}  // namespace kedge::tools
