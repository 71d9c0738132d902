// See base_sample.h.
#include "capture/base_sample.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace kedge {
namespace {

constexpr int kSamples = 16;
constexpr uint64_t kSampleBytes = 4096;

}  // namespace

bool AgreesWithBase(const ImageBase& base, const Region& region, const void* data, std::span<const ChangedRange> changed,
                    uint64_t seed) {
  const size_t index = BaseRegion(base, region);
  const auto& extents = base.record.extents;
  const auto begin = std::partition_point(extents.begin(), extents.end(), [&](const Extent& e) { return e.region < index; });
  Random random(seed);
  for (int i = 0; i < kSamples && region.bytes > kSampleBytes; ++i) {
    const uint64_t offset = random.Below(region.bytes - kSampleBytes);
    const auto extent = std::partition_point(
        begin, extents.end(), [&](const Extent& e) { return e.region == index && e.region_offset + e.bytes <= offset; });
    if (extent == extents.end() || extent->region != index || base.chunks[extent->chunk] == nullptr) continue;
    const uint64_t end = std::min(offset + kSampleBytes, extent->region_offset + extent->bytes);
    const auto next = std::partition_point(changed.begin(), changed.end(),
                                           [&](const ChangedRange& range) { return range.offset + range.bytes <= offset; });
    if (next != changed.end() && next->offset < end) continue;
    const std::byte* const was = base.chunks[extent->chunk] + extent->chunk_offset + (offset - extent->region_offset);
    if (std::memcmp(static_cast<const std::byte*>(data) + offset, was, end - offset) != 0) return false;
  }
  return true;
}

}  // namespace kedge
