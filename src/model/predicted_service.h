// What one writer of a tier should have written since the beginning, by the tier's curve and the writers it really had:
// the integral of MODEL(S, Sw) over time. A write's prediction is the difference between its end and its begin, so that
// the model is judged by the concurrency that there was, not by the one that there was when the write began.
//
// Threads: belongs to one thread.
#pragma once

#include <cstdint>

#include "model/throughput_curve.h"

namespace kedge {

class PredictedService {
 public:
  // To be called before each change of the number of writers: `writers` is what it was since the last call.
  void Advance(const ThroughputCurve* curve, uint32_t writers, int64_t now_ns) {
    if (curve != nullptr) bytes_ += curve->PerWriter(writers) * static_cast<double>(now_ns - now_ns_) * 1e-9;
    now_ns_ = now_ns;
  }
  double bytes() const { return bytes_; }

 private:
  double bytes_ = 0;
  int64_t now_ns_ = 0;
};

}  // namespace kedge
