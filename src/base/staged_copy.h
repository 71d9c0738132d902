// A copy in two steps, where only some rows of what is copied go on: the first step checks all of it and leaves it in the cache,
// the second one brings rows of it to memory past the cache. Part of crc32c's copies (copy_checksum.cc). Thread safe, no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kedge::crc32c {

// As CopyAndChecksum, to memory that is read again at once: the copy stays in the cache, whatever its length.
uint32_t CopyIntoCache(void* dst, const void* src, size_t bytes, uint32_t crc);

// memcpy, from the cache to memory that is not read again soon. After the last of several comes OrderCopiesPastCache: then
// whoever sees a later release store of this thread sees them.
void CopyPastCache(void* dst, const void* src, size_t bytes);
void OrderCopiesPastCache();

}  // namespace kedge::crc32c
