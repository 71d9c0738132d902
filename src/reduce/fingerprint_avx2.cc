// XXH3 for processors with AVX2: this file alone is compiled for them, and fingerprint.cc asks whether this is one. It is more
// than twice as fast as what the library has for all, and six times where a checksum was computed before: that leaves the upper
// halves of the vector registers in use, which the other kind of instruction pays for.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstring>

namespace kedge::reduce {

void FingerprintWithAvx2(const void* block, size_t bytes, void* fingerprint) {
  const XXH128_hash_t hash = XXH3_128bits(block, bytes);
  std::memcpy(fingerprint, &hash, sizeof(hash));
}

}  // namespace kedge::reduce
