#include "modelled/model_accuracy.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "modelled/parts.h"

namespace kedge::bench {
namespace {

constexpr uint32_t kChunksEach = 8;

// Bytes per second of so many writers that write their chunks one after the other, while all of them do.
// `transfer_bytes` says what the next chunk costs the device.
double Measure(os::testing::ModelledDevice device, uint32_t writers, double chunk_bytes,
               const std::function<double()>& transfer_bytes) {
  std::vector<uint32_t> left(writers, kChunksEach - 1);
  for (uint32_t writer = 0; writer < writers; ++writer) device.Begin(writer, transfer_bytes());
  double bytes = 0;
  for (;;) {
    const double now = device.NextEnd();
    device.Advance(now);
    uint64_t writer = 0;
    while (device.TakeEnded(&writer)) {
      bytes += chunk_bytes;
      if (left[writer]-- == 0) return bytes / now;
      device.Begin(writer, transfer_bytes());
    }
  }
}

}  // namespace

Result<ModelAccuracy> JudgeModel(const Scenario& scenario, const std::string& name) {
  const auto tier = std::find_if(scenario.tiers.begin(), scenario.tiers.end(), [&](const auto& one) { return one.name == name; });
  if (tier == scenario.tiers.end()) return Status(Code::kNotFound, "no tier is called " + name);
  uint64_t chunk = 0;
  const auto transfer_bytes = [&] { return TransferBytes(scenario, tier->noise, 0, chunk++, Transfer::kWrite); };
  auto measure = [&](uint32_t writers) {
    return Measure(TierDevices(scenario)[static_cast<size_t>(tier - scenario.tiers.begin())], writers,
                   static_cast<double>(scenario.chunk_bytes), transfer_bytes);
  };
  std::vector<ThroughputSample> samples = {{1, measure(1)}};
  for (uint32_t writers = ModelAccuracy::kStep; writers <= ModelAccuracy::kWritersMax; writers += ModelAccuracy::kStep) {
    samples.push_back({writers, measure(writers)});
  }
  ModelAccuracy accuracy;
  accuracy.samples = samples.size();
  KEDGE_ASSIGN_OR_RETURN(const ThroughputCurve curve, ThroughputCurve::Fit(std::move(samples)));
  for (uint32_t writers = 1; writers <= ModelAccuracy::kWritersMax; ++writers) {
    const ModelAccuracy::Row row{writers, curve.Total(writers), measure(writers)};
    accuracy.rows.push_back(row);
    accuracy.error_mean += std::abs(row.predicted / row.actual - 1) / ModelAccuracy::kWritersMax;
  }
  return accuracy;
}

}  // namespace kedge::bench
