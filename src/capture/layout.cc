// See layout.h.
#include "capture/layout.h"

#include <algorithm>

namespace kedge {

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
