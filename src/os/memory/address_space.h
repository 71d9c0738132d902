// What is mapped in this process: the lines of /proc/self/maps.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/status.h"

namespace kedge::os {

struct Mapped {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string_view permissions;  // "rw-p"
  std::string_view inode;        // "0": of no file
  std::string_view path;         // "": none
};

// From the lowest address on, until `visit` says that it is enough (false).
Status ForEachMapped(const std::function<bool(const Mapped&)>& visit);

// Whether [begin, end) is memory of this process alone: private, of no file, writable. kUnsupported: some is not.
// kInvalidArgument: some is not mapped.
Status CheckPrivate(uint64_t begin, uint64_t end);

}  // namespace kedge::os
