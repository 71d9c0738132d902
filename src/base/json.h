// JSON for the tools' --json and the agent's status: nlohmann's values, whose objects keep the order of their keys.
//
// Values are made with <nlohmann/json.hpp>, which only the files that make them include.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace kedge {

using Json = nlohmann::ordered_json;

// On one line; with an indent of at least 0, a line for each value and that many spaces for each level. Always valid JSON, and
// nothing is thrown: bytes that are not UTF-8 become U+FFFD, NaN and infinities null.
std::string ToText(const Json& json, int indent = -1);

}  // namespace kedge
