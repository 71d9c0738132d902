#include "base/config_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/byte_size.h"
#include "base/quantity.h"

namespace kedge {
namespace {

Status Expected(std::string_view what, std::string_view text) {
  return Status(Code::kInvalidArgument, fmt::format("expected {}, found '{}'", what, text));
}

Result<ConfigData> ParseBool(std::string_view text) {
  for (const char* word : {"true", "1", "yes", "on"}) {
    if (EqualsIgnoringCase(text, word)) return ConfigData(true);
  }
  for (const char* word : {"false", "0", "no", "off"}) {
    if (EqualsIgnoringCase(text, word)) return ConfigData(false);
  }
  return Expected("true or false", text);
}

template <typename T>
Result<T> ParseNumber(std::string_view text, std::string_view what) {
  T value{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return Expected(what, text);
  return value;
}

Result<ConfigData> ParseByType(const KeySpec& spec, std::string_view text) {
  switch (spec.type) {
    case KeyType::kBool: return ParseBool(text);
    case KeyType::kInt64: {
      KEDGE_ASSIGN_OR_RETURN(const int64_t value, ParseNumber<int64_t>(text, "a whole number"));
      return ConfigData(value);
    }
    case KeyType::kDouble: {
      KEDGE_ASSIGN_OR_RETURN(const double value, ParseNumber<double>(text, "a number"));
      return ConfigData(value);
    }
    case KeyType::kString: return ConfigData(std::string(text));
    case KeyType::kBytes: {
      KEDGE_ASSIGN_OR_RETURN(const uint64_t value, ParseByteSize(text));
      return ConfigData(value);
    }
    case KeyType::kDuration: {
      KEDGE_ASSIGN_OR_RETURN(const Duration value, ParseDuration(text));
      return ConfigData(value);
    }
  }
  return Status(Code::kInternal, "unknown key type");
}

Status CheckLimits(const KeySpec& spec, const ConfigData& data, std::string_view text) {
  double value = 0;
  if (const auto* whole = std::get_if<int64_t>(&data)) {
    value = static_cast<double>(*whole);
  } else if (const auto* number = std::get_if<double>(&data)) {
    value = *number;
  } else if (const auto* bytes = std::get_if<uint64_t>(&data)) {
    value = static_cast<double>(*bytes);
  } else if (const auto* duration = std::get_if<Duration>(&data)) {
    value = ToSeconds(*duration);
  } else if (const auto* string = std::get_if<std::string>(&data)) {
    if (spec.choices.empty() || std::find(spec.choices.begin(), spec.choices.end(), *string) != spec.choices.end()) {
      return Status::Ok();
    }
    return Expected(fmt::format("one of {}", fmt::join(spec.choices, ", ")), text);
  } else {
    return Status::Ok();
  }
  if (value >= spec.minimum && value <= spec.maximum) return Status::Ok();
  const char* unit = spec.type == KeyType::kDuration ? " s" : spec.type == KeyType::kBytes ? " B" : "";
  return Expected(fmt::format("a value from {}{} to {}{}", spec.minimum, unit, spec.maximum, unit), text);
}

}  // namespace

const char* KeyTypeName(KeyType type) {
  switch (type) {
    case KeyType::kBool: return "true or false";
    case KeyType::kInt64: return "whole number";
    case KeyType::kDouble: return "number";
    case KeyType::kString: return "string";
    case KeyType::kBytes: return "byte count";
    case KeyType::kDuration: return "duration";
  }
  return "unknown";
}

Result<ConfigData> ParseConfigData(const KeySpec& spec, std::string_view text) {
  if (spec.auto_allowed && text == "auto") return ConfigData(ConfigAuto{});
  KEDGE_ASSIGN_OR_RETURN(ConfigData data, ParseByType(spec, text));
  KEDGE_RETURN_IF_ERROR(CheckLimits(spec, data, text));
  return data;
}

std::string FormatConfigData(const ConfigData& data) {
  struct Formatter {
    std::string operator()(ConfigAuto) const { return "auto"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(double value) const { return fmt::format("{}", value); }
    std::string operator()(const std::string& value) const { return value; }
    std::string operator()(uint64_t bytes) const { return FormatByteSizeExact(bytes); }
    std::string operator()(Duration value) const { return FormatDurationExact(value); }
  };
  return std::visit(Formatter{}, data);
}

}  // namespace kedge
