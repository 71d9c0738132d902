// What a rank writes into its memory: lines that each name the image and their own number, so that a test can find them in a
// pool or an object, and any mixture of two images shows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tests/histories/world.h"

namespace kedge::histories {

inline constexpr size_t kLineBytes = 64;

// What every line of the image begins with.
std::string PatternOf(const Tag& tag);
// `bytes` of it.
std::string ContentOf(const Tag& tag, size_t bytes);
// The image that the memory is, whole; nothing: it is none, and `problem` says where it stops being one.
std::optional<Tag> ReadContent(const std::string& memory, std::string* problem);

}  // namespace kedge::histories
