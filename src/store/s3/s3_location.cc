#include "store/s3/s3_location.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/byte_size.h"
#include "os/files/files.h"
#include "store/s3/url.h"
#include "store/store.h"

namespace kedge::s3 {

namespace {

constexpr std::string_view kScheme = "s3://";
constexpr size_t kBucketBytesMax = 63;

Status Refused(std::string_view text, const std::string& why) {
  return Status(Code::kInvalidArgument, fmt::format("\"{}\": {}", text, why));
}

bool IsBucketName(std::string_view name) {
  return name.size() >= 3 && name.size() <= kBucketBytesMax && name.find("..") == std::string_view::npos &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || (c >= 'A' && c <= 'Z');
         });
}

bool IsEndpoint(std::string_view text) {
  const bool is_http = text.starts_with("http://") || text.starts_with("https://");
  const std::string_view host = is_http ? text.substr(text.find("://") + 3) : std::string_view();
  return !host.empty() && host.find_first_of("/?#@ ") == std::string_view::npos;
}

Status SetOption(std::string_view key, const std::string& value, std::string_view text, Location* location, bool* addressed) {
  if (key == "endpoint") {
    location->endpoint = value;
  } else if (key == "region") {
    location->region = value;
  } else if (key == "addressing") {
    if (value != "path" && value != "virtual") return Refused(text, "addressing is path or virtual");
    location->addressing = value == "path" ? Addressing::kPath : Addressing::kVirtual;
    *addressed = true;
  } else if (key == "profile") {
    location->profile = value;
  } else if (key == "ca") {
    location->ca_file = value.empty() ? "" : os::AbsolutePath(value);
  } else if (key == "part") {
    const Result<uint64_t> bytes = ParseByteSize(value);
    if (!bytes.ok() || *bytes < kPartBytesMin || *bytes > kPartBytesMax) return Refused(text, "part is 5MiB to 1GiB");
    location->part_bytes = *bytes;
  } else if (key == "connections") {
    uint32_t number = 0;
    const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_number = read.ec == std::errc() && read.ptr == value.data() + value.size();
    if (!is_number || number < 1 || number > kConnectionsMax) return Refused(text, "connections is 1 to 256");
    location->connections = number;
  } else {
    return Refused(text, fmt::format("\"{}\" is none of endpoint, region, addressing, profile, ca, part, connections", key));
  }
  return Status::Ok();
}

// The first of these variables that is set and not empty.
std::string FirstOf(const Environment& environment, std::initializer_list<const char*> variables) {
  for (const char* const variable : variables) {
    const std::optional<std::string> value = environment(variable);
    if (value && !value->empty()) return *value;
  }
  return {};
}

void TakeFrom(const Environment& environment, Location* location) {
  location->endpoint = FirstOf(environment, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  while (location->endpoint.ends_with('/')) location->endpoint.pop_back();
  const std::string region = FirstOf(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (!region.empty()) location->region = region;
  // As AWS's tools do: keys in the environment beat a profile that is named there.
  if (FirstOf(environment, {"AWS_ACCESS_KEY_ID"}).empty()) location->profile = FirstOf(environment, {"AWS_PROFILE"});
  const std::string ca_file = FirstOf(environment, {"AWS_CA_BUNDLE"});
  if (!ca_file.empty()) location->ca_file = os::AbsolutePath(ca_file);
}

}  // namespace

std::optional<std::string> ProcessEnvironment(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<Location> ParseLocation(std::string_view text, const Environment& environment) {
  if (!text.starts_with(kScheme)) return Refused(text, "does not begin with s3://");
  const size_t question = std::min(text.find('?'), text.size());
  const std::string_view place = text.substr(kScheme.size(), question - kScheme.size());
  const size_t slash = std::min(place.find('/'), place.size());
  Location location;
  TakeFrom(environment, &location);
  location.bucket = place.substr(0, slash);
  if (!IsBucketName(location.bucket)) return Refused(text, "the name of a bucket is 3 to 63 letters, digits and .-_");
  std::string_view prefix = place.substr(std::min(slash + 1, place.size()));
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!prefix.empty() && !ValidateKey(prefix).ok()) return Refused(text, "its prefix has an empty component, or \".\" or \"..\"");
  location.prefix = prefix;
  bool addressed = false;
  for (size_t at = question + 1; at < text.size();) {
    const size_t end = std::min(text.find('&', at), text.size());
    const std::string_view option = text.substr(at, end - at);
    const size_t equals = std::min(option.find('='), option.size());
    const std::string value = Decode(option.substr(std::min(equals + 1, option.size())));
    KEDGE_RETURN_IF_ERROR(SetOption(option.substr(0, equals), value, text, &location, &addressed));
    at = end + 1;
  }
  if (location.region.empty() || location.region.find_first_of("/ \n") != std::string::npos)
    return Refused(text, "its region is no name");
  if (!location.endpoint.empty() && !IsEndpoint(location.endpoint)) {
    return Refused(text, fmt::format("its endpoint \"{}\" is not http://HOST[:PORT] or https://HOST[:PORT]", location.endpoint));
  }
  // Other servers than AWS's seldom have a name for each bucket; nor do certificates hold for a bucket with a dot.
  if (!addressed && (!location.endpoint.empty() || location.bucket.find('.') != std::string::npos)) {
    location.addressing = Addressing::kPath;
  }
  if (location.endpoint.empty()) location.endpoint = fmt::format("https://s3.{}.amazonaws.com", location.region);
  return location;
}

std::string Location::ToText() const {
  std::string text = std::string(kScheme) + bucket + (prefix.empty() ? "" : '/' + prefix);
  char separator = '?';
  const auto add = [&](const char* key, const std::string& value) {
    text += separator + std::string(key) + '=' + Encode(value, "/:");
    separator = '&';
  };
  const Location defaults;
  add("endpoint", endpoint);
  add("region", region);
  add("addressing", addressing == Addressing::kPath ? "path" : "virtual");
  // Also when they are empty: the environment of whoever reads it is another one.
  add("profile", profile);
  add("ca", ca_file);
  if (part_bytes != defaults.part_bytes) add("part", std::to_string(part_bytes));
  if (connections != defaults.connections) add("connections", std::to_string(connections));
  return text;
}

std::string Location::BaseUrl() const {
  if (addressing == Addressing::kPath) return endpoint;
  const size_t host = endpoint.find("://") + 3;
  return endpoint.substr(0, host) + bucket + '.' + endpoint.substr(host);
}

std::string Location::BasePath() const {
  return addressing == Addressing::kPath ? '/' + bucket : std::string();
}

std::string Location::KeyOf(std::string_view key) const {
  if (prefix.empty()) return std::string(key);
  return key.empty() ? prefix : prefix + '/' + std::string(key);
}

}  // namespace kedge::s3
