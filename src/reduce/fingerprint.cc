#include "reduce/fingerprint.h"

#include <xxhash.h>

#include <cstring>

namespace kedge::reduce {

#if defined(__x86_64__)
void FingerprintWithAvx2(const void* block, size_t bytes, void* fingerprint);  // fingerprint_avx2.cc
#endif

Fingerprint FingerprintOf(ByteSpan block) {
  Fingerprint fingerprint;
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) {
    FingerprintWithAvx2(block.data(), block.size(), fingerprint.data());
    return fingerprint;
  }
#endif
  const XXH128_hash_t hash = XXH3_128bits(block.data(), block.size());
  static_assert(sizeof(hash) == sizeof(fingerprint));
  std::memcpy(fingerprint.data(), &hash, sizeof(hash));
  return fingerprint;
}

bool IsZeros(ByteSpan block) {
  // Equal to itself moved by one byte: each byte is as the one before it, and the first is zero.
  return block.empty() || (block[0] == std::byte{0} && std::memcmp(block.data(), block.data() + 1, block.size() - 1) == 0);
}

}  // namespace kedge::reduce
