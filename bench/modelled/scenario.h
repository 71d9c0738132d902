// A scenario for placement policies: writers, tiers and a store on paper, read from a TOML file.
//
//   chunk_mib = 64              size of a chunk
//   writers = 96                of each node
//   chunks_per_writer = 4       each writer writes them one after the other
//   seed = 1                    of the noise
//   time_scale = 0              wall seconds for a modelled second; 0: virtual time
//   nodes = 1                   alike, and sharing the store
//   noise = 0.05                relative standard deviation of what each transfer costs; a tier or the store may have its own
//   [[tier]]                    fastest first
//     name = "cache"
//     capacity_chunks = 24
//     curve = [[1, 20000]]      [writers, MB/s over all of them]; between them a cubic spline
//     calibration = [[1, 9000]] what the policy believes instead; []: it knows nothing
//     share = [[10, 0.5]]       from that second on, that factor of the curve
//   [store]
//     curve = [[1, 1300]]       by flushes at a time, over all nodes
//     workers_max = 4           flushes at a time of each node
//     share = [[5, 0], [8, 1]]
// Only seed, time_scale, nodes, noise, calibration and share may be left out. A chunk costs the same under every policy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/throughput_curve.h"
#include "os/testing/modelled_device.h"

namespace kedge::bench {

using Shares = std::vector<os::testing::ModelledDevice::Share>;

struct ScenarioTier {
  std::string name;
  uint32_t capacity_chunks = 0;
  ThroughputCurve curve;
  std::optional<ThroughputCurve> calibration;  // what the policy knows; nothing: it has to do without
  double noise = 0;
  Shares shares;
};

struct Scenario {
  uint64_t chunk_bytes = 0;
  uint32_t writers = 0;
  uint32_t chunks_per_writer = 0;
  uint64_t seed = 1;
  double time_scale = 0;
  uint32_t nodes = 1;
  std::vector<ScenarioTier> tiers;
  ThroughputCurve store_curve;
  uint32_t store_workers_max = 1;
  double store_noise = 0;
  Shares store_shares;

  double bytes() const { return static_cast<double>(chunk_bytes) * writers * chunks_per_writer; }  // of one node
};

// kInvalidArgument names the file, the key, what was found and what is allowed.
Result<Scenario> ReadScenario(const std::string& path);
Result<Scenario> ParseScenario(const std::string& text, const std::string& origin);

// No policy could end the local phase earlier: in that time the tiers at their best, with their capacity and what the store
// can have taken from them, have just room for all bytes. The share of the store (and of the tiers) is integrated over time.
double BoundSeconds(const Scenario& scenario);

}  // namespace kedge::bench
