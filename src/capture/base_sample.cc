// See base_sample.h.
#include "capture/base_sample.h"

#include <algorithm>
#include <cstring>

namespace kedge {
namespace {

constexpr int kSamples = 16;
constexpr uint64_t kSampleBytes = 4096;

// SplitMix64: evenly spread numbers from any seed.
uint64_t NextNumber(uint64_t* state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

bool AgreesWithBase(const ImageBase& base, const Region& region, const void* data, std::span<const ChangedRange> changed,
                    uint64_t seed) {
  const size_t index = BaseRegion(base, region);
  const auto& extents = base.record.extents;
  const auto begin = std::partition_point(extents.begin(), extents.end(), [&](const Extent& e) { return e.region < index; });
  for (int i = 0; i < kSamples && region.bytes > kSampleBytes; ++i) {
    const uint64_t offset = NextNumber(&seed) % (region.bytes - kSampleBytes);
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
