#include "burst/settings.h"

#include <fmt/format.h>

#include "net/secret_file.h"
#include "os/files/file_system.h"
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

std::string FolderOfServers(const Config& config, const std::string& store) {
  const std::string& folder = config.GetString("buffer.folder");
  if (!folder.empty()) return os::AbsolutePath(folder);
  if (store.empty() || store.find("://") != std::string::npos) return {};
  std::string in_store = os::JoinPath(os::AbsolutePath(store), kFolderInStore);
  return os::SystemFileSystem().Stat(in_store).ok() ? in_store : std::string();
}

Result<ClientOptions> ReadClientOptions(const Config& config, const std::string& server) {
  ClientOptions options;
  options.server = server;
  options.folder = FolderOfServers(config, config.GetString("store.path"));
  for (const char* key : {"buffer.folder", "buffer.owner", "buffer.secret"}) {
    const bool is_folder = key == std::string_view("buffer.folder");
    if (!(is_folder ? options.folder : config.GetString(key)).empty()) continue;
    return Status(Code::kInvalidArgument,
                  fmt::format("{} is not set: give it in the configuration, or as {}{}", key, ConfigRegistry::VariableOf(key),
                              is_folder ? ", or let the server begin with --store, and name that store in store.path" : ""));
  }
  options.owner = config.GetString("buffer.owner");
  options.provider = config.GetString("net.provider");
  options.interface_address = config.GetString("net.interface");
  options.encrypt = config.GetBool("net.encrypt");
  KEDGE_ASSIGN_OR_RETURN(options.secret, net::ReadSecret(os::AbsolutePath(config.GetString("buffer.secret"))));
  return options;
}

}  // namespace kedge::buffer
