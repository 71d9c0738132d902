// A block as it lies compressed in an object: a header with checksums, and a buffer of c-blosc (docs/format.md).
//
// The checksum of the stored bytes is compared before anything of them is believed, that of the block itself after it was
// decompressed. So a flipped bit is damage that is found where it lies, and a mistake of the compressor is found, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "format/wire.h"

namespace kedge::reduce {

enum class Compressor : uint8_t { kLz4, kZstd };
// What is done with the bytes of the elements before: the first bytes of all come first, then the second ones; or so with bits.
enum class Filter : uint8_t { kNone, kShuffle, kBitShuffle };

struct CodecSettings {
  Compressor compressor = Compressor::kLz4;
  Filter filter = Filter::kShuffle;
  uint8_t element_bytes = 8;  // >= 1

  friend bool operator==(const CodecSettings&, const CodecSettings&) = default;
};

// Compresses into `out`, which has room for kStoredBlockOverheadBytes more than the block has; how much was used. What does not
// shrink takes all of that. REQUIRES: the block has 1 byte to kMapBlockBytesMax. kNoSpace: there is no memory.
Result<size_t> StoreBlock(ByteSpan block, const CodecSettings& settings, std::span<std::byte> out);

// `stored` is what StoreBlock has made of a block of block.size() bytes, and nothing else. kCorrupt: it is not, and what is in
// `block` is worth nothing. Reads and writes nothing outside the two whatever lies there.
Status LoadBlock(ByteSpan stored, std::span<std::byte> block);

}  // namespace kedge::reduce
