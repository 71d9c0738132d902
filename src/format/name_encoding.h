// Names (of jobs, checkpoints, files: any bytes but NUL) as path components that are safe on every file system and
// object store, and readable where they can be.
//
// Letters, digits, '_', '-', '.' (not first) and '+' '=' '@' ',' stand for themselves; every other byte is %XX, with
// upper case digits. A name whose encoding would be longer than 200 bytes becomes the first 160 bytes of it (cut before
// a broken %XX), '~' and 32 hexadecimal digits of its XXH3 128-bit hash. '~' appears in no other encoding. The hash is
// not reversible: the record in the folder holds the real name, and whoever opens the folder compares it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kedge {

inline constexpr size_t kEncodedNameBytesMax = 200;

// `name` is not empty. Different names give different components (up to the hash). Never ".", "..", nor with '.' first.
std::string EncodeName(std::string_view name);

// The name, or nothing when the component is hashed or not an encoding that EncodeName makes.
std::optional<std::string> DecodeEncodedName(std::string_view component);

}  // namespace kedge
