// Where a store lies, in the words of store.path and of the tools: the path of a folder.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace kedge {

// "s3" of "s3://bucket/prefix"; empty: the text is a path, also one with a colon or a double slash in it.
std::string_view SchemeOf(std::string_view text);

// The text that every process may open the store by, whatever its working folder: a path is made absolute. kInvalidArgument:
// empty, or of a scheme that is none of a store's, which would otherwise be taken for a folder's name.
Result<std::string> ResolveStorePath(const std::string& text);

}  // namespace kedge
