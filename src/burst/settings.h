// What the configuration says of burst buffers (buffer.*, net.*), and how their files are named.
#pragma once

#include <string>
#include <string_view>

#include "base/config.h"
#include "burst/client.h"

namespace kedge::buffer {

inline constexpr std::string_view kScheme = "bb://";

// bb://SERVER/PATH
struct FileName {
  std::string server;
  std::string path;  // empty: all there is
};
inline bool IsFileName(std::string_view text) {
  return text.starts_with(kScheme);
}
// kInvalidArgument: it names no server, or, unless `whole_server` may be meant, no file.
Result<FileName> ParseFileName(std::string_view text, bool whole_server);

// A store in a folder has such a folder when a server has said there where it is (kedge-buffer --store).
inline constexpr char kFolderInStore[] = "buffers";
// Where servers say where they are: buffer.folder; where that is not set, kFolderInStore of the store at `store`, if it is there.
// Empty: nothing says it.
std::string FolderOfServers(const Config& config, const std::string& store);

// The store is that of store.path. Reads the owner's secret. kInvalidArgument names the key that is missing; errors of
// ReadSecret.
Result<ClientOptions> ReadClientOptions(const Config& config, const std::string& server);

}  // namespace kedge::buffer
