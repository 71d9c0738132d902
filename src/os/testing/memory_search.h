// Looks for bytes in all of this process's memory that a core file would have.
#pragma once

#include <cstddef>
#include <span>

namespace kedge::os::testing {

// `wanted` itself is to lie in memory that no core file has (SecretBytes). Not for stacks and memory that change meanwhile:
// what moves while it looks may be missed.
bool IsInDumpedMemory(std::span<const std::byte> wanted);

}  // namespace kedge::os::testing
