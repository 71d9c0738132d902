#include "reduce/fingerprint.h"

#include <xxhash.h>

#include <cstring>

namespace kedge::reduce {

Fingerprint FingerprintOf(ByteSpan block) {
  const XXH128_hash_t hash = XXH3_128bits(block.data(), block.size());
  Fingerprint fingerprint;
  static_assert(sizeof(hash) == sizeof(fingerprint));
  std::memcpy(fingerprint.data(), &hash, sizeof(hash));
  return fingerprint;
}

bool IsZeros(ByteSpan block) {
  // Equal to itself moved by one byte: each byte is as the one before it, and the first is zero.
  return block.empty() || (block[0] == std::byte{0} && std::memcmp(block.data(), block.data() + 1, block.size() - 1) == 0);
}

}  // namespace kedge::reduce
