// The object in which a chunk of a stored image lies, as though the chunk lay there where the image record says.
//
// Where the image has a block map (format/block_map.h), its own object holds only some blocks: the others are zeros, or lie in
// other images' objects; and where they lie they may be compressed. Who reads chunks need not know.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/versions.h"

namespace kedge {

// Its offsets are those of chunk.object_offset; of chunks with one ChunkObjectKey it is one object. The store of `catalog` must
// outlive it. Thread safe. What others hold is opened with the first byte that is read there. `open` (may be empty) opens what
// the block map names, in the store's place.
using OpenObject = std::function<Result<std::unique_ptr<ObjectReader>>(const std::string& key)>;
Result<std::unique_ptr<ObjectReader>> OpenChunkObject(const Catalog& catalog, const StoredImage& image, const Chunk& chunk,
                                                      const OpenObject& open = {});

// Bytes of an object that an image has.
struct ObjectRange {
  std::string key;  // whole
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
// All that the block map names, as often as it does, in the image's order. REQUIRES: image.map.
std::vector<ObjectRange> RangesOf(const StoredImage& image);

// Of an image: where its bytes are.
struct StoredBytes {
  uint64_t own = 0;       // in its own object, without records
  uint64_t shared = 0;    // in objects of other versions
  uint64_t borrowed = 0;  // in objects of other ranks of the same version
  uint64_t common = 0;    // in objects of blocks that several nodes have, of the same version
  uint64_t zeros = 0;     // nowhere
  uint64_t copies = 0;    // where an earlier block of the image lies
  uint64_t stored = 0;    // what its own take there: less where they are compressed
};
StoredBytes StoredBytesOf(const StoredImage& image);
// Whether it is an object of that generation, of another rank than the image whose map names it.
bool IsOfVersion(const SharedObject& object, const Generation& generation);

}  // namespace kedge
