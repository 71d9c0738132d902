// TemporaryOwner as the tag in a temporary file's name, and back: "NODE-ATTEMPT-WRITER", without dots or slashes, at
// most kTemporaryTagBytesMax bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/store.h"

namespace kedge {

inline constexpr size_t kTemporaryTagBytesMax = 96;

// Long node names are cut to a hash, which is equal for equal names; ParseTemporaryTag then gives the hash, so compare
// tags, not owners.
std::string MakeTemporaryTag(const TemporaryOwner& owner);
std::optional<TemporaryOwner> ParseTemporaryTag(std::string_view tag);

}  // namespace kedge
