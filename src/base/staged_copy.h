// The second step of a copy in two, where only some rows of what is copied go on: the first one is a memcpy of a few KiB, which
// stay in the first-level cache; this one brings rows of them to memory past the cache. Part of crc32c's copies
// (copy_checksum.cc). Thread safe, no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kedge::crc32c {

// For tests and the benchmark: the two ways of large copies. `dst` is aligned to 32 bytes, `bytes` a multiple of 16 KiB.
uint32_t CopyInOneWay(bool is_staged, void* dst, const void* src, size_t bytes, uint32_t crc);

// memcpy, from the cache to memory that is not read again soon. After the last of several comes OrderCopiesPastCache: then
// whoever sees a later release store of this thread sees them.
void CopyPastCache(void* dst, const void* src, size_t bytes);
void OrderCopiesPastCache();

}  // namespace kedge::crc32c
