#include "modelled/parts.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/random.h"

namespace kedge::bench {

using os::testing::ModelledDevice;

namespace {

ModelledDevice::Total TotalOf(const ThroughputCurve& curve) {
  return [&curve](uint32_t transfers) { return curve.Total(transfers); };
}

}  // namespace

std::vector<ModelledDevice> TierDevices(const Scenario& scenario) {
  std::vector<ModelledDevice> devices;
  for (const ScenarioTier& tier : scenario.tiers) devices.emplace_back(TotalOf(tier.curve), tier.shares);
  return devices;
}

ModelledDevice StoreDevice(const Scenario& scenario) {
  return ModelledDevice(TotalOf(scenario.store_curve), scenario.store_shares);
}

std::vector<uint32_t> CapacitiesFor(const Scenario& scenario, std::string_view policy) {
  std::vector<uint32_t> capacities;
  for (const ScenarioTier& tier : scenario.tiers) capacities.push_back(tier.capacity_chunks);
  if (policy == "cache-only") capacities[0] = std::max(capacities[0], scenario.writers * scenario.chunks_per_writer);
  return capacities;
}

double TransferBytes(const Scenario& scenario, double noise, uint32_t node, uint64_t chunk, Transfer what) {
  const auto bytes = static_cast<double>(scenario.chunk_bytes);
  if (noise == 0) return bytes;
  Random random(MixSeed(MixSeed(MixSeed(scenario.seed, node), chunk), static_cast<uint64_t>(what)));
  // Box and Muller.
  const double radius = std::sqrt(-2 * std::log(1 - random.Unit()));
  const double normal = radius * std::cos(2 * std::numbers::pi * random.Unit());
  return bytes * std::max(0.1, 1 + noise * normal);
}

PlacementResult Summary(const Scenario& scenario, std::string_view policy, const std::vector<ModelledNode::Counts>& nodes) {
  PlacementResult result;
  result.policy = policy;
  result.bound_seconds = BoundSeconds(scenario);
  for (const ScenarioTier& tier : scenario.tiers) result.chunks.emplace_back(tier.name, 0);
  result.chunks.emplace_back("store", 0);
  double error_sum = 0;
  uint64_t errors = 0;
  for (const ModelledNode::Counts& node : nodes) {
    result.local_seconds = std::max(result.local_seconds, static_cast<double>(node.local_end_ns - kStartNs) * 1e-9);
    result.flush_seconds = std::max(result.flush_seconds, static_cast<double>(node.flush_end_ns - kStartNs) * 1e-9);
    for (size_t i = 0; i < node.chunks.size(); ++i) result.chunks[i].second += node.chunks[i];
    result.chunks.back().second += node.through;
    result.waits += node.waits;
    result.wait_seconds += node.wait_seconds;
    error_sum += node.error_sum;
    errors += node.errors;
  }
  if (errors > 0) result.model_error_mean = error_sum / static_cast<double>(errors);
  return result;
}

}  // namespace kedge::bench
