// Percent encoding as SigV4 wants it: letters, digits and "-._~" as they are, all other bytes as %XX.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kedge::s3 {

// `also`: further characters that stay as they are, such as "/" in a path.
std::string Encode(std::string_view text, std::string_view also = {});
// What is no %XX stays as it is.
std::string Decode(std::string_view text);

using Pairs = std::vector<std::pair<std::string, std::string>>;
// "a=1&b=", sorted as a signature wants it, which is as good for the request itself. A value may be empty, its '=' stays.
std::string QueryText(Pairs query);

}  // namespace kedge::s3
