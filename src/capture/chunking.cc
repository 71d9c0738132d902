// See layout.h.
#include "capture/chunking.h"

#include <algorithm>

#include "redundancy/geometry.h"

namespace kedge {
namespace {

// Below this an extent's place in the record, and its round through the copy, begin to be felt.
constexpr uint64_t kCutBytesMin = uint64_t{64} << 10;
// Of the record's extents, which the client keeps in memory.
constexpr uint64_t kCutsMax = 65536;

}  // namespace

uint64_t ExtentCutBytes(uint64_t image_bytes) {
  const uint64_t cut_bytes = redundancy::BlockBytesFor(image_bytes);
  return cut_bytes < kCutBytesMin || image_bytes / cut_bytes > kCutsMax ? 0 : cut_bytes;
}

void PlanChunks(const LayoutLimits& limits, std::span<const uint64_t> region_bytes, std::vector<uint64_t>* chunks) {
  chunks->clear();
  uint64_t chunk = 0;
  for (uint64_t region : region_bytes) {
    if (region >= limits.piece_bytes && chunk > 0) {
      chunks->push_back(chunk);
      chunk = 0;
    }
    while (region > 0) {
      const uint64_t taken = std::min(region, limits.chunk_bytes - chunk);
      chunk += taken;
      region -= taken;
      if (chunk == limits.chunk_bytes) {
        chunks->push_back(chunk);
        chunk = 0;
      }
    }
  }
  if (chunk > 0) chunks->push_back(chunk);
}

}  // namespace kedge
