// What a rank writes into its memory: lines with their own number, so that any mixture of two images shows. Many name the image
// or its version, so that a test can find them in a pool or an object. Those of some blocks are equal in all images of all ranks,
// in those of a version, or in those of a rank and a launch: versions may share the first and the last in the store, and ranks
// the first two; and the first are equal to each other.
//
// A part of a global array has the array's lines from one of them on, whose numbers are those in the array, and the rank in them
// is 0 whichever rank has them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tests/histories/world.h"

namespace kedge::histories {

inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kBlockLines = 64;  // what reduce.block is set to

// What the lines of the image begin with that name it; the first is one.
std::string PatternOf(const Tag& tag);
// `bytes` of it, from a line on.
std::string ContentOf(const Tag& tag, size_t bytes, size_t first_line = 0);
// Makes the memory that content. Lines that are as they should be are not written: their pages stay as they were.
void WriteContent(const Tag& tag, std::span<char> memory, size_t first_line = 0);
// Whether the memory is that content; `problem` says where it stops being so.
bool HasContent(const Tag& tag, std::string_view memory, size_t first_line, std::string* problem);
// The image that the memory is, whole; nothing: it is none, and `problem` says where it stops being one.
std::optional<Tag> ReadContent(std::string_view memory, std::string* problem);

}  // namespace kedge::histories
