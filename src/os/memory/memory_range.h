// A run of bytes of this process's memory.
#pragma once

#include <cstddef>

namespace kedge::os {

struct MemoryRange {
  const std::byte* begin = nullptr;
  size_t bytes = 0;

  const std::byte* end() const { return begin + bytes; }
  friend bool operator==(const MemoryRange&, const MemoryRange&) = default;
};

}  // namespace kedge::os
