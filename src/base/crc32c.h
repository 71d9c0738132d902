// CRC32C (Castagnoli, as in iSCSI and ext4): the checksum of every chunk, header and record.
//
// All functions take and return the finished checksum (inverted before and after, as RFC 3720 defines it), so that
// Extend(Extend(0, a), b) == Compute(a followed by b), and 0 is the checksum of no bytes. Thread safe, no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kedge::crc32c {

// The checksum of the bytes that `crc` covers followed by `data`. Any length, any alignment.
uint32_t Extend(uint32_t crc, const void* data, size_t bytes);

inline uint32_t Compute(const void* data, size_t bytes) {
  return Extend(0, data, bytes);
}

// The checksum of A followed by B, from the checksums of the two and the length of B. O(log bytes_b).
uint32_t Combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b);

// Copies `bytes` from `src` to `dst` (no overlap) and returns the checksum of what `crc` covers followed by the bytes that
// arrived, also when another thread changes `src` during the copy. Reads `src` from memory once, at the speed of memcpy.
// Large copies bypass the cache; the bytes are visible to whoever sees a later release store of this thread. A copy that is made
// part by part is as large as `of_bytes`, when that is more than `bytes`.
uint32_t CopyAndChecksum(void* dst, const void* src, size_t bytes, uint32_t crc = 0, size_t of_bytes = 0);

// As CopyAndChecksum without the copy; the name says at a call site that bytes are only verified.
inline uint32_t ChecksumOnly(const void* src, size_t bytes, uint32_t crc = 0) {
  return Extend(crc, src, bytes);
}

}  // namespace kedge::crc32c
