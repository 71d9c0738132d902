// Where a store lies, in the words of store.path and of the tools: the path of a folder, "s3://BUCKET/PREFIX"
// (s3/s3_location.h), or "bb://SERVER/PREFIX" (buffer/buffer_location.h).
#pragma once

#include <string>
#include <string_view>

#include "base/config.h"
#include "base/status.h"

namespace kedge {

// "s3" of "s3://bucket/prefix"; empty: the text is a path, also one with a colon or a double slash in it.
std::string_view SchemeOf(std::string_view text);

// The text that every process may open the store by, whatever its working folder and environment. kInvalidArgument: empty, or of
// a scheme that is none of a store's, which would otherwise be taken for a folder's name. `config`, of KedgeConfigRegistry's
// keys, says of burst buffers what the text leaves open; null: nothing does.
Result<std::string> ResolveStorePath(const std::string& text, const Config* config = nullptr);
// Whether it can be resolved only with a configuration.
bool NeedsConfig(const std::string& text);
// Whether it is one.
bool IsResolvedStorePath(const std::string& text);
// Whether it names a folder.
bool IsFolder(const std::string& text);

}  // namespace kedge
