// The predicted write throughput of a tier by the number of its concurrent writers: MODEL(S, Sw) of [VeloC] IV-C.
//
// Samples (a calibration's, or learned online) are interpolated exactly by a natural cubic B-spline over the writers; the
// spline is evaluated once for every whole number of writers, so that a prediction is one table read: O(1), no allocation.
// Between two samples the curve stays within half of the smaller and twice the greater one, so that a wild sample cannot
// swing it below zero or off its scale; below the first sample each writer has the first one's share; beyond the last
// sample the total is flat.
//
// Threads: immutable once made; any thread may read.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace kedge {

struct ThroughputSample {
  uint32_t writers = 0;         // at a time
  double bytes_per_second = 0;  // total over all of them
};

class ThroughputCurve {
 public:
  static constexpr uint32_t kWritersMax = 4096;
  static constexpr size_t kSamplesMax = 1024;
  // "Nearly as fast": of the greatest total.
  static constexpr double kBest = 0.99;
  static constexpr double kMost = 0.97;

  // kInvalidArgument unless there is a sample, writers lie in 1..kWritersMax and increase strictly, and throughputs are finite
  // and greater than zero. O(samples + greatest number of writers).
  static Result<ThroughputCurve> Fit(std::vector<ThroughputSample> samples);

  // Bytes per second of all writers together when `writers` write at a time; 0 for none.
  double Total(uint32_t writers) const { return writers < totals_.size() ? totals_[writers] : totals_.back(); }
  // Each writer's share of it; 0 for no writers.
  double PerWriter(uint32_t writers) const { return writers == 0 ? 0 : Total(writers) / writers; }
  // The least number of writers that together are nearly as fast as any; more of them only take longer, each.
  uint32_t best_writers() const { return best_writers_; }
  // The most writers that are; more of them get less done. UINT32_MAX when the last sample is that fast.
  uint32_t most_writers() const { return most_writers_; }
  const std::vector<ThroughputSample>& samples() const { return samples_; }

 private:
  ThroughputCurve() = default;

  std::vector<ThroughputSample> samples_;
  std::vector<double> totals_;  // by number of writers, from 0 to the last sample's
  uint32_t best_writers_ = 1;
  uint32_t most_writers_ = 1;
};

}  // namespace kedge
