// The checksums of a chunk by capture, and those of what a flush has written of it, held against each other.
//
// A flush writes pieces long before the image record is there, whose extents carry capture's checksums. So the checksum of each
// piece is taken in the pass that writes it, and compared when the record has come: by combining, wherever a piece and an extent
// end together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "format/image_record.h"

namespace kedge {

// Bytes of a chunk.
struct SummedRun {
  uint64_t begin = 0;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;

  uint64_t end() const { return begin + bytes; }
  friend bool operator==(const SummedRun&, const SummedRun&) = default;
};

// By chunk of the record, what capture says of it: extents in order, joined where they do not end at a multiple of
// `piece_bytes`. Of chunks that lie in other objects nothing. kUnsupported: bytes of a chunk are in no extent, or in two.
Result<std::vector<std::vector<SummedRun>>> CapturedRuns(const ImageRecord& record, uint64_t piece_bytes);

// The first bytes that are not shown to be the same; nothing when all are. `captured` is in order; `written` may be in any.
struct RunDifference {
  uint64_t begin = 0;
  uint64_t end = 0;
};
std::optional<RunDifference> FirstDifference(std::span<const SummedRun> captured, std::vector<SummedRun> written);

}  // namespace kedge
