// How the bytes of an image are cut into chunks: pure arithmetic, no memory is touched.
//
// Regions follow each other in order of declaration. A region of at least one piece starts a chunk of its own, so that
// it lies on chunk and page boundaries; smaller ones are packed behind what came before. A chunk holds at most
// `chunk_bytes`. Extents are cut at multiples of `piece_bytes` within their chunk, so that none is longer than a piece; those of
// larger images also where blocks end that other nodes will read (ExtentCutBytes).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kedge {

struct LayoutLimits {
  uint64_t chunk_bytes = 0;  // > 0; at most the bytes of a slot
  uint64_t piece_bytes = 0;  // > 0, at most chunk_bytes
};

// Replaces `chunks` by the sizes of the chunks that hold regions of these sizes, in order. The sum of the chunks is the
// sum of the regions; no chunk is empty.
void PlanChunks(const LayoutLimits& limits, std::span<const uint64_t> region_bytes, std::vector<uint64_t>* chunks);

// The multiples, in the image's object, that no extent of an image of so many bytes goes over: the blocks that protection across
// nodes has checksums of (redundancy/geometry.h), which follow from those of the extents then, without another pass over the
// bytes. 0: anything goes, since its blocks are small (they are soon read), or too many.
uint64_t ExtentCutBytes(uint64_t image_bytes);

// How many of `bytes` the extent that starts at `chunk_offset` may hold.
inline uint64_t ExtentBytes(const LayoutLimits& limits, uint64_t chunk_offset, uint64_t bytes) {
  const uint64_t to_boundary = limits.piece_bytes - chunk_offset % limits.piece_bytes;
  return bytes < to_boundary ? bytes : to_boundary;
}

}  // namespace kedge
