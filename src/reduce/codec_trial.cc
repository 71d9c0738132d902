#include "reduce/codec_trial.h"

#include <algorithm>

#include "format/block_map.h"

namespace kedge::reduce {

namespace {

constexpr size_t kSampleBytesMax = size_t{8} << 10;
// A slow way takes twice as long on the way to the store or back: it must save this part of what is left.
constexpr uint64_t kSlowWayShare = 8;

struct Way {
  CodecSettings settings;
  bool is_slow = false;
};
constexpr Way kWays[] = {{{Compressor::kLz4, Filter::kShuffle, 8}},          {{Compressor::kLz4, Filter::kShuffle, 4}},
                         {{Compressor::kLz4, Filter::kShuffle, 2}},          {{Compressor::kLz4, Filter::kNone, 1}},
                         {{Compressor::kLz4, Filter::kBitShuffle, 8}, true}, {{Compressor::kLz4, Filter::kBitShuffle, 4}, true},
                         {{Compressor::kZstd, Filter::kShuffle, 8}, true},   {{Compressor::kZstd, Filter::kShuffle, 4}, true}};

}  // namespace

Result<CodecTrial> TryCodecs(const std::vector<ByteSpan>& samples) {
  Buffer out(kSampleBytesMax + kStoredBlockOverheadBytes);
  CodecTrial trial;
  uint64_t least_bytes = UINT64_MAX;
  for (const Way& way : kWays) {
    uint64_t bytes = 0, stored_bytes = 0;
    for (const ByteSpan sample : samples) {
      const ByteSpan tried = sample.first(std::min(sample.size(), kSampleBytesMax));
      if (tried.empty()) continue;
      KEDGE_ASSIGN_OR_RETURN(const size_t stored, StoreBlock(tried, way.settings, out));
      bytes += tried.size();
      stored_bytes += stored;
    }
    trial.tried_bytes += bytes;
    if (bytes == 0 || stored_bytes + (way.is_slow ? stored_bytes / kSlowWayShare : 0) >= least_bytes) continue;
    least_bytes = stored_bytes;
    trial.settings = way.settings;
    trial.saved_fraction = std::max(0.0, 1 - static_cast<double>(stored_bytes) / static_cast<double>(bytes));
  }
  return trial;
}

}  // namespace kedge::reduce
