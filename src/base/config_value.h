// One configuration value: from text by its specification, and back to text. Internal to config.
#pragma once

#include <string>
#include <string_view>

#include "base/config.h"

namespace kedge {

const char* KeyTypeName(KeyType type);

// kInvalidArgument says what was expected and found; the caller puts key and origin in front.
Result<ConfigData> ParseConfigData(const KeySpec& spec, std::string_view text);

// Canonical: equal values have equal texts, and ParseConfigData reads them back.
std::string FormatConfigData(const ConfigData& data);

}  // namespace kedge
