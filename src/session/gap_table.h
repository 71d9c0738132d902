// What an image leaves out of its slots, because the image before it in the session has the same bytes at the same place of the
// same chunk: the agent copies them from there before it takes the image (session/mailbox.h, ImageEnd).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "format/wire.h"

namespace kedge {

struct Gap {
  uint32_t chunk = 0;   // of both images
  uint64_t offset = 0;  // within the chunk
  uint64_t bytes = 0;

  friend bool operator==(const Gap&, const Gap&) = default;
};

struct GapTable {
  uint64_t base_serial = 0;  // the image that has the bytes; 0: nothing is left out
  std::vector<Gap> gaps;     // in order of chunk and offset

  friend bool operator==(const GapTable&, const GapTable&) = default;
};

// Appends to `out`.
void EncodeGapTable(const GapTable& table, Buffer* out);
// In order, and without overlap; whether such chunks are there is the reader's to check.
Result<GapTable> DecodeGapTable(ByteSpan bytes);

}  // namespace kedge
