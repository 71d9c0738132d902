#include "store/buffer/buffer_location.h"

#include <fmt/format.h>

#include <algorithm>

#include "burst/settings.h"
#include "os/files/files.h"
#include "store/s3/url.h"
#include "store/store.h"

namespace kedge::buffer {
namespace {

Status RefusedLocation(std::string_view text, const std::string& why) {
  return {Code::kInvalidArgument, fmt::format("\"{}\": {}", text, why)};
}

Status SetStoreOption(std::string_view key, const std::string& value, std::string_view text, StoreLocation* location) {
  if (key == "folder") {
    location->folder = value;
  } else if (key == "owner") {
    location->owner = value;
  } else if (key == "secret") {
    location->secret = value;
  } else if (key == "provider") {
    location->provider = value;
  } else if (key == "interface") {
    location->interface_address = value;
  } else if (key == "drain") {
    location->drain = value;
  } else if (key == "encrypt") {
    if (value != "true" && value != "false")
      return RefusedLocation(text, fmt::format("encrypt={} is neither true nor false", value));
    location->encrypt = value == "true";
  } else if (key == "partner") {
    location->partner = value;
  } else {
    return RefusedLocation(
        text, fmt::format("\"{}\" is none of folder, owner, secret, provider, interface, encrypt, drain, partner", key));
  }
  return Status::Ok();
}

}  // namespace

Result<StoreLocation> ParseStoreLocation(std::string_view text, const Config* config) {
  const size_t question = std::min(text.find('?'), text.size());
  KEDGE_ASSIGN_OR_RETURN(FileName name, ParseFileName(text.substr(0, question), /*whole_server=*/true));
  StoreLocation location;
  location.server = name.server;
  location.prefix = std::move(name.path);
  while (location.prefix.ends_with('/')) location.prefix.pop_back();
  if (location.prefix.empty()) return RefusedLocation(text, "a store on a burst buffer needs a name: bb://SERVER/PREFIX");
  if (!ValidateKey(location.prefix).ok())
    return RefusedLocation(text, "its prefix has an empty component, or \".\" or \"..\", or a long one");
  if (config != nullptr) {
    location.owner = config->GetString("buffer.owner");
    location.secret = config->GetString("buffer.secret");
    location.provider = config->GetString("net.provider");
    location.interface_address = config->GetString("net.interface");
    location.encrypt = config->GetBool("net.encrypt");
  }
  for (size_t at = question + 1; at < text.size();) {
    const size_t end = std::min(text.find('&', at), text.size());
    const std::string_view option = text.substr(at, end - at);
    const size_t equals = std::min(option.find('='), option.size());
    const std::string value = s3::Decode(option.substr(std::min(equals + 1, option.size())));
    KEDGE_RETURN_IF_ERROR(SetStoreOption(option.substr(0, equals), value, text, &location));
    at = end + 1;
  }
  if (config != nullptr && location.folder.empty())
    location.folder = FolderOfServers(*config, location.drain.empty() ? config->GetString("store.path") : location.drain);
  for (const auto& [value, what] : {std::pair(&location.folder, "folder"), std::pair(&location.owner, "owner"),
                                    std::pair(&location.secret, "secret"), std::pair(&location.provider, "provider")}) {
    if (!value->empty()) continue;
    const std::string key = std::string(value == &location.provider ? "net." : "buffer.") + what;
    return RefusedLocation(text, fmt::format("{} is not set: give it in the configuration, as {}, or as {}= behind a question "
                                             "mark",
                                             key, ConfigRegistry::VariableOf(key), what));
  }
  if (!location.partner.empty()) {
    if (location.drain.empty())
      return RefusedLocation(text, "a partner is for a burst buffer before a store: drain= names that store");
    const auto its = ParseFileName(location.Partner().ToDisplay(), /*whole_server=*/true);
    if (!its.ok() || its->server != location.partner || its->server == location.server)
      return RefusedLocation(text, "its partner is the name of another burst buffer");
  }
  if (text.find('\0') != std::string_view::npos || location.ToText().find('\0') != std::string::npos)
    return RefusedLocation(text, "holds a NUL byte");
  location.folder = os::AbsolutePath(location.folder);
  location.secret = os::AbsolutePath(location.secret);
  return location;
}

std::string StoreLocation::ToDisplay() const {
  return std::string(kScheme) + server + '/' + prefix;
}

StoreLocation StoreLocation::Alone() const {
  StoreLocation alone = *this;
  alone.drain.clear();
  alone.partner.clear();
  return alone;
}

StoreLocation StoreLocation::Partner() const {
  StoreLocation its = Alone();
  its.server = partner;
  return its;
}

// Also what is as it would be by itself: the configuration of whoever reads it is another one.
std::string StoreLocation::ToText() const {
  const auto value = [](const std::string& one) { return s3::Encode(one, "/:"); };
  return fmt::format("{}?folder={}&owner={}&secret={}&provider={}&interface={}{}{}{}{}{}", ToDisplay(), value(folder),
                     value(owner), value(secret), value(provider), value(interface_address), encrypt ? "&encrypt=true" : "",
                     partner.empty() ? "" : "&partner=", value(partner), drain.empty() ? "" : "&drain=", value(drain));
}

}  // namespace kedge::buffer
