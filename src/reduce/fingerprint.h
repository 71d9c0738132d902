// Fingerprints of blocks: what tells whether two blocks are equal without having both at hand.
//
// XXH3 with 128 bits is no cryptographic hash. Blocks that a program happens to write collide with a chance of about n^2 / 2^129
// for n blocks of an image; somebody who looks for two different blocks with one fingerprint may find them, and harms only the
// own checkpoints with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/status.h"
#include "format/block_map.h"
#include "format/wire.h"

namespace kedge::reduce {

Fingerprint FingerprintOf(ByteSpan block);
// The first half of it.
inline uint64_t NumberOf(const Fingerprint& fingerprint) {
  uint64_t number = 0;
  std::memcpy(&number, fingerprint.data(), sizeof number);
  return number;
}
// For tables.
struct HashOfFingerprint {
  size_t operator()(const Fingerprint& fingerprint) const { return NumberOf(fingerprint); }
};
// Whether all bytes are zero; true for none.
bool IsZeros(ByteSpan block);

}  // namespace kedge::reduce
