// How well a calibration predicts a device: [VeloC] figure 3 on a modelled device. Samples at 1 writer and at steps of 10 are
// measured, as a calibration does; the curve through them is compared with a measurement at every number of writers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modelled/scenario.h"

namespace kedge::bench {

struct ModelAccuracy {
  static constexpr uint32_t kWritersMax = 180;
  static constexpr uint32_t kStep = 10;
  struct Row {
    uint32_t writers = 0;
    double predicted = 0;  // bytes per second of all writers
    double actual = 0;
  };
  uint64_t samples = 0;
  std::vector<Row> rows;
  double error_mean = 0;  // |predicted - actual| / actual
};

// kNotFound: there is no tier of that name. Each number of writers is measured with a few chunks each, under the scenario's
// noise.
Result<ModelAccuracy> JudgeModel(const Scenario& scenario, const std::string& tier);

}  // namespace kedge::bench
