#include "base/json.h"

#include <nlohmann/json.hpp>

namespace kedge {

std::string ToText(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kedge
