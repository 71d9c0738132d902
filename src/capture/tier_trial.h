// How fast a tier takes chunks from several writers at once: the measurement behind `kedge calibrate` ([VeloC] IV-C).
//
// A round is `writers` threads that start together and capture a chunk each into a slot of its own, by the code that captures
// checkpoints (ImageCapture: copy and checksum, piece by piece, into mapped slots or through a buffer to the tier). Its
// throughput is all bytes over the time from the common start to the last end. Slots are reserved, faulted in and written once
// before they count, as those of a running agent are; nothing is synced, as nothing is when a checkpoint is captured.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "format/calibration.h"
#include "tier/tier.h"

namespace kedge {

struct TrialOptions {
  uint64_t piece_bytes = 0;
  uint32_t rounds_min = 5;
  uint32_t rounds_max = 100;
  uint32_t spread_permille = 20;  // standard error of the mean that suffices
  Duration level_timeout = std::chrono::seconds(30);
};

// Asked after each round; false gives up (kTimeout).
using TrialProgress = std::function<bool(const CalibrationSample& so_far)>;

class TierTrial {
 public:
  // `tier` outlives the trial, and nobody else writes to it.
  TierTrial(Tier& tier, const TrialOptions& options);
  ~TierTrial();

  // REQUIRES: writers between 1 and the tier's slots. Runs rounds until the spread is small or the time is up; at least one.
  Result<CalibrationSample> Measure(uint32_t writers, const TrialProgress& progress);

 private:
  class Writer;
  Status Prepare(uint32_t writers);
  Result<double> Round(uint32_t writers);  // seconds

  Tier& tier_;
  const TrialOptions options_;
  std::vector<std::byte> source_;  // what is captured: more than fits a cache, so that it comes from memory
  std::vector<std::unique_ptr<Writer>> writers_;
};

// 1, then equally spaced up to at least `writers_max`, fewer than a tenth of that many levels, but four where that is less
// ([VeloC] V-C takes 1 to 180 in steps of 10); all of them up to four. REQUIRES: writers_max >= 1.
std::vector<uint32_t> CalibrationLevels(uint32_t writers_max);

}  // namespace kedge
