#include "buffer/drain_places.h"

#include <fmt/format.h>

#include <optional>

#include "store/places/store_path.h"
#include "store/s3/s3_location.h"

namespace kedge::buffer {
namespace {

bool IsAtOrBelow(std::string_view path, std::string_view place) {
  while (place.ends_with('/')) place.remove_suffix(1);
  return path.starts_with(place) && (path.size() == place.size() || place.empty() || path[place.size()] == '/');
}

// Both canonical.
std::optional<std::string> Within(const std::string& place, const std::string& target) {
  if (IsFolder(place) != IsFolder(target)) return std::nullopt;
  if (IsFolder(place)) return IsAtOrBelow(target, place) ? std::optional(target) : std::nullopt;
  const auto allowed = s3::ParseLocation(place, s3::ProcessEnvironment);
  const auto asked = s3::ParseLocation(target, s3::ProcessEnvironment);
  if (!allowed.ok() || !asked.ok() || asked->bucket != allowed->bucket || asked->endpoint != allowed->endpoint ||
      !IsAtOrBelow(asked->prefix, allowed->prefix))
    return std::nullopt;
  s3::Location granted = *allowed;
  granted.prefix = asked->prefix;
  return granted.ToText();
}

}  // namespace

Result<std::string> ParseDrainPlace(const std::string& text) {
  if (SchemeOf(text) == "bb")
    return Status(Code::kInvalidArgument, fmt::format("\"{}\": a burst buffer is drained to a folder or a bucket", text));
  if (('/' + text.substr(0, text.find('?')) + '/').find("/../") != std::string::npos)
    return Status(Code::kInvalidArgument, fmt::format("\"{}\": a place to drain to has no component \"..\"", text));
  return ResolveStorePath(text);
}

Result<std::string> AllowedTarget(std::span<const std::string> places, const std::string& target) {
  KEDGE_ASSIGN_OR_RETURN(const std::string resolved, ParseDrainPlace(target));
  for (const std::string& place : places) {
    if (std::optional<std::string> granted = Within(place, resolved)) return std::move(*granted);
  }
  return Status(Code::kPermission, fmt::format("nothing may be drained to {}", resolved));
}

}  // namespace kedge::buffer
