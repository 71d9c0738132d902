// How the blocks of a piece are best compressed: samples of them are, in each way that may be the best.
//
// Memory that is declared as bytes, objects and files have elements, too, and chunks hold several regions: what the bytes
// themselves show is right for all of them, and known before the image record is.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "format/wire.h"
#include "reduce/stored_block.h"

namespace kedge::reduce {

struct CodecTrial {
  CodecSettings settings;     // the best
  double saved_fraction = 0;  // of the samples, by it; 0: they do not shrink
  uint64_t tried_bytes = 0;   // that were compressed, all ways together: with the time that it took, a speed
};

// Of each sample what begins it, up to 8 KiB, is tried. Samples begin where elements do. A slower way counts as the best only
// where it saves a good deal more. kNoSpace: there is no memory.
Result<CodecTrial> TryCodecs(const std::vector<ByteSpan>& samples);

}  // namespace kedge::reduce
