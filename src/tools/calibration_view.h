// Calibrations for people and programs: a table, a plot of points and curve in the terminal, JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "format/calibration.h"
#include "tier/tier_info.h"

namespace kedge::tools {

// One tier of the configuration and what is known of its device.
struct CalibratedTier {
  std::string name;
  TierKind kind = TierKind::kMemory;
  std::string folder;  // where it lies
  std::string device;
  std::optional<Calibration> calibration;
  std::string why_none;  // when there is no calibration
};

// The table of samples, and, `width` characters wide, the plot.
std::string CalibrationText(const CalibratedTier& tier, size_t width);
// {"folder", "tiers": [{"name", ..., "samples": [...], "curve": [...]}]}; python/kedge/plan/commands/curves.py reads it.
Json CalibrationJson(const std::string& folder, const std::vector<CalibratedTier>& tiers);

}  // namespace kedge::tools
