// One image read from front to back, every extent verified: what verify and copy are made of.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/versions.h"

namespace kedge {

struct ImageStreamOptions {
  uint64_t buffer_bytes = 8 << 20;
  // Called with each piece of each chunk, in order. An error ends the reading and is returned.
  std::function<Status(size_t chunk, uint64_t chunk_offset, ByteSpan bytes)> piece;
  // Called for what is wrong: an extent whose checksum does not match, a chunk that cannot be read.
  std::function<void(const std::string& what)> problem;
};

// Reads all chunks of `image`, also those in other objects.
Status StreamImage(const Catalog& catalog, const StoredImage& image, const ImageStreamOptions& options);

}  // namespace kedge
