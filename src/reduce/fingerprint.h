// Fingerprints of blocks: what tells whether two blocks are equal without having both at hand.
//
// XXH3 with 128 bits is no cryptographic hash. Blocks that a program happens to write collide with a chance of about n^2 / 2^129
// for n blocks of an image; somebody who looks for two different blocks with one fingerprint may find them, and harms only the
// own checkpoints with them.
#pragma once

#include "base/status.h"
#include "format/block_map.h"
#include "format/wire.h"

namespace kedge::reduce {

Fingerprint FingerprintOf(ByteSpan block);
// Whether all bytes are zero; true for none.
bool IsZeros(ByteSpan block);

}  // namespace kedge::reduce
