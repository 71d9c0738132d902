// VELOC's INI configuration, understood as settings of Kedge.
//
// Keys stand at the top level, one `key = value` a line, with # or ; comments; VELOC_<KEY> in the environment wins.
// `scratch`, `persistent` and `mode` must be there. Known keys without a meaning here give one warning for all of them;
// any other key is an error that names it. Pure text: no I/O.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace kedge {

struct VelocConfig {
  // "section.key=value" lines for kedge_options.overrides.
  std::string overrides;
  std::vector<std::string> warnings;
};

// The value of an environment variable, if set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// `path` only names the file in messages. kInvalidArgument: path, line, key, what was expected.
Result<VelocConfig> ParseVelocConfig(std::string_view text, const std::string& path, const EnvironmentLookup& environment);

}  // namespace kedge
