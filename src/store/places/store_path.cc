#include "store/places/store_path.h"

#include <fmt/format.h>

#include <algorithm>

#include "os/files/files.h"
#include "store/buffer/buffer_location.h"
#include "store/s3/s3_location.h"

namespace kedge {

std::string_view SchemeOf(std::string_view text) {
  const size_t end = text.find("://");
  if (end == std::string_view::npos || end == 0) return {};
  const std::string_view scheme = text.substr(0, end);
  const bool is_scheme = std::ranges::all_of(scheme, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
  return is_scheme ? scheme : std::string_view();
}

Result<std::string> ResolveStorePath(const std::string& text, const Config* config) {
  if (text.empty() || text.find('\0') != std::string::npos) {
    return Status(Code::kInvalidArgument, "the path of a store is empty or holds a NUL byte");
  }
  const std::string_view scheme = SchemeOf(text);
  if (scheme.empty()) return os::AbsolutePath(text);
  if (scheme == "s3") {
    KEDGE_ASSIGN_OR_RETURN(const s3::Location location, s3::ParseLocation(text, s3::ProcessEnvironment));
    return location.ToText();
  }
  if (scheme == "bb") {
    KEDGE_ASSIGN_OR_RETURN(buffer::StoreLocation location, buffer::ParseStoreLocation(text, config));
    if (!location.drain.empty()) {
      if (SchemeOf(location.drain) == "bb")
        return Status(
            Code::kInvalidArgument,
            fmt::format("\"{}\": a burst buffer drains to a folder or to s3://BUCKET/PREFIX, not to another one", text));
      KEDGE_ASSIGN_OR_RETURN(location.drain, ResolveStorePath(location.drain, config));
    }
    return location.ToText();
  }
  return Status(Code::kInvalidArgument,
                fmt::format("\"{}\": Kedge has no kind of store called {}://; name a folder, s3://BUCKET/PREFIX or "
                            "bb://SERVER/PREFIX, and write ./{} for a folder of that name",
                            text, scheme, text));
}

bool NeedsConfig(const std::string& text) {
  return SchemeOf(text) == "bb";
}

bool IsResolvedStorePath(const std::string& text) {
  return IsFolder(text) ? text.starts_with('/') : ResolveStorePath(text).ok();
}

bool IsFolder(const std::string& text) {
  return SchemeOf(text).empty();
}

}  // namespace kedge
