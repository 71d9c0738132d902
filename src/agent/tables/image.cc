#include "agent/tables/image.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/tables/job.h"
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

bool Image::IsOwedToStore() const {
  switch (flush) {
    case FlushState::kNone:
    case FlushState::kFailed: return false;
    // Its files are still to be written to where they belong, which needs the version to be complete.
    case FlushState::kStored:
      return has_files && !files_published && version->job->hello.keys.files_publish && version->in_store();
    default: return true;
  }
}

bool Image::IsOwed(Level level) const {
  if (!ended) return true;
  if (version->undecided) return level > Level::kLocal;
  const bool to_store = IsOwedToStore(), to_node = version->IsOwedToNodes();
  switch (level) {
    case Level::kNone:
    case Level::kLocal: return false;
    // What comes to the store has survived a node, too.
    case Level::kNode: return (to_store || to_node) && version->ReachedLevel() < Level::kNode;
    case Level::kBuffer: return to_store;
    case Level::kStore: return to_store || version->IsOnBufferOnly();
    case Level::kLast: break;
  }
  return to_store || to_node;
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

Status Image::DamagedHere() const {
  return Status(Code::kCorrupt,
                fmt::format("{} rank {}: its bytes here are not those that were captured", version->generation.ToString(), rank));
}

}  // namespace kedge
