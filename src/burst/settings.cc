#include "burst/settings.h"

#include <fmt/format.h>

#include "net/secret_file.h"
#include "os/files/files.h"

namespace kedge::buffer {

Result<FileName> ParseFileName(std::string_view text, bool whole_server) {
  const std::string_view rest = IsFileName(text) ? text.substr(kScheme.size()) : std::string_view();
  const size_t slash = rest.find('/');
  FileName name{std::string(rest.substr(0, slash)), std::string(slash == rest.npos ? "" : rest.substr(slash + 1))};
  if (name.server.empty() || (name.path.empty() && !whole_server))
    return Status(Code::kInvalidArgument, fmt::format("\"{}\" is not bb://SERVER/PATH", text));
  return name;
}

Result<ClientOptions> ReadClientOptions(const Config& config, const std::string& server) {
  for (const char* key : {"buffer.folder", "buffer.owner", "buffer.secret"}) {
    if (config.GetString(key).empty())
      return Status(Code::kInvalidArgument,
                    fmt::format("{} is not set: give it in the configuration, or as {}", key, ConfigRegistry::VariableOf(key)));
  }
  ClientOptions options;
  options.server = server;
  options.folder = os::AbsolutePath(config.GetString("buffer.folder"));
  options.owner = config.GetString("buffer.owner");
  options.provider = config.GetString("net.provider");
  options.interface_address = config.GetString("net.interface");
  KEDGE_ASSIGN_OR_RETURN(options.secret, net::ReadSecret(os::AbsolutePath(config.GetString("buffer.secret"))));
  return options;
}

}  // namespace kedge::buffer
