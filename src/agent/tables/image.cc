#include "agent/tables/image.h"

#include <algorithm>
#include "agent/tables/version.h"

namespace kedge {

const char* FlushStateName(FlushState state) {
  switch (state) {
    case FlushState::kNone: return "none";
    case FlushState::kFlushing: return "flushing";
    case FlushState::kWritten: return "written";
    case FlushState::kPublishing: return "publishing";
    case FlushState::kStored: return "stored";
    case FlushState::kWaiting: return "waiting";
    case FlushState::kShipped: return "shipped";
    case FlushState::kFailed: return "failed";
  }
  return "unknown";
}

void ImageChunk::CountAsFlushing(bool is_one) {
  if (unit == nullptr || is_flushing == is_one) return;
  is_flushing = is_one;
  unit->flushing_chunks += is_one ? 1u : -1u;
}

PieceSource ImageChunk::Source(uint64_t at, uint64_t source_bytes) const {
  PieceSource source;
  if (unit != nullptr) source.tier = unit->tier;
  source.slot = slot;
  source.file = file;
  source.offset = offset + at;
  source.bytes = source_bytes;
  return source;
}

void Image::Describe(const ImageRecord& by) {
  for (const ImageChunk& chunk : chunks) {
    if (chunk.in_own_object)
      record_object_offset = std::max(record_object_offset, AlignChunkOffset(chunk.object_offset + chunk.bytes));
  }
  image_bytes = by.RegionBytes();
  has_files =
      std::any_of(by.regions.begin(), by.regions.end(), [](const Region& region) { return region.kind == RegionKind::kFile; });
}

bool Image::IsOnItsWay() const {
  switch (flush) {
    case FlushState::kFlushing:
    case FlushState::kWritten:
    case FlushState::kPublishing:
    case FlushState::kWaiting:
    case FlushState::kShipped: return true;
    default: return false;
  }
}

bool Image::HasReleased() const {
  return std::any_of(chunks.begin(), chunks.end(), [](const ImageChunk& chunk) { return chunk.released; });
}

bool Image::HasNoOtherCopy() const {
  return flush == FlushState::kNone && !version->at_node;
}

bool Image::IsLost() const {
  auto is_lost = [](const ImageChunk& chunk) {
    return (chunk.unit != nullptr && chunk.unit->lost) || (chunk.file_unit != nullptr && chunk.file_unit->lost);
  };
  return is_lost(record) || std::any_of(chunks.begin(), chunks.end(), is_lost);
}

}  // namespace kedge
