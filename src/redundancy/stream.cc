#include "redundancy/stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/crc32c.h"
#include "format/image_record.h"

namespace kedge::redundancy {

namespace {

constexpr uint64_t kChunkBytesMax = uint64_t{1} << 40;

Status Malformed(const ImageRecord& image, uint32_t chunk, const char* what) {
  return Status(Code::kUnsupported, fmt::format("{}: chunk {} {}", image.identity.ToString(), chunk, what));
}

Status MismatchError(const ImageRecord& image, const Extent& extent, uint32_t found) {
  const Region& region = image.regions[extent.region];
  return Status(Code::kCorrupt,
                fmt::format("{}: region {}{}, bytes {} to {}: checksum {:08x}, expected {:08x}", image.identity.ToString(),
                            region.id, region.name.empty() ? "" : " (" + region.name + ")", extent.region_offset,
                            extent.region_offset + extent.bytes, found, extent.crc32c));
}

}  // namespace

Result<ImageStream> ImageStream::Make(const ImageRecord& image, uint64_t record_bytes) {
  ImageStream stream;
  std::vector<StreamPiece> chunks;
  uint64_t offset_max = 0;
  for (uint32_t i = 0; i < image.chunks.size(); ++i) {
    const Chunk& chunk = image.chunks[i];
    if (chunk.bytes > kChunkBytesMax) return Malformed(image, i, "is too large");
    offset_max += AlignChunkOffset(chunk.bytes);
    if (chunk.object == 0 && chunk.bytes > 0) chunks.push_back({StreamPart::kChunk, i, 0, chunk.object_offset, chunk.bytes});
  }
  std::sort(chunks.begin(), chunks.end(), [](const auto& a, const auto& b) { return a.stream_offset < b.stream_offset; });
  const auto append = [&stream](const StreamPiece& piece) {
    if (piece.stream_offset > stream.bytes_) {
      stream.pieces_.push_back({StreamPart::kGap, 0, 0, stream.bytes_, piece.stream_offset - stream.bytes_});
    }
    stream.pieces_.push_back(piece);
    stream.bytes_ = piece.stream_offset + piece.bytes;
  };
  for (const StreamPiece& chunk : chunks) {
    if (chunk.stream_offset < stream.bytes_) return Malformed(image, chunk.chunk, "overlaps another in its object");
    // Gaps come from alignment and from chunks that lie elsewhere; larger ones would be work for nothing, or an attack.
    if (chunk.stream_offset > offset_max) return Malformed(image, chunk.chunk, "lies beyond what all chunks would take");
    append(chunk);
  }
  stream.record_offset_ = AlignChunkOffset(stream.bytes_);
  append({StreamPart::kRecord, 0, 0, stream.record_offset_, record_bytes});
  return stream;
}

std::vector<StreamPiece> ImageStream::Range(uint64_t offset, uint64_t bytes) const {
  KEDGE_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  std::vector<StreamPiece> range;
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                [](uint64_t at, const StreamPiece& p) { return at < p.stream_offset + p.bytes; });
  for (; bytes > 0; ++piece) {
    const uint64_t skipped = offset - piece->stream_offset;
    const uint64_t part = std::min(bytes, piece->bytes - skipped);
    const uint64_t part_offset = piece->part == StreamPart::kGap ? 0 : piece->part_offset + skipped;
    range.push_back({piece->part, piece->chunk, part_offset, offset, part});
    offset += part;
    bytes -= part;
  }
  return range;
}

StreamTableBuilder::StreamTableBuilder(const ImageRecord& image, const ImageStream& stream, uint32_t block_bytes)
    : image_(image), table_(stream.bytes(), block_bytes) {
  waiting_.reserve(image.extents.size());
  for (const Extent& extent : image.extents) {
    const Chunk& chunk = image.chunks[extent.chunk];
    if (chunk.object == 0) waiting_.emplace_back(chunk.object_offset + extent.chunk_offset, &extent);
  }
  std::sort(waiting_.begin(), waiting_.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
}

uint64_t StreamTableBuilder::NextPartBytes() const {
  uint64_t end = table_.added() + table_.LeftInBlock();
  for (const Running& running : running_) end = std::min(end, running.end);
  if (!waiting_.empty()) end = std::min(end, waiting_.back().first);
  return end - table_.added();
}

Status StreamTableBuilder::AddPart(uint32_t crc32c, uint64_t bytes) {
  table_.AddChecksummed(crc32c, bytes);
  for (Running& running : running_) {
    running.crc32c = running.begun ? crc32c::Combine(running.crc32c, crc32c, bytes) : crc32c;
    running.begun = true;
    if (running.end == table_.added() && running.crc32c != running.extent->crc32c) {
      return MismatchError(image_, *running.extent, running.crc32c);
    }
  }
  std::erase_if(running_, [this](const Running& running) { return running.end == table_.added(); });
  return Status::Ok();
}

Status StreamTableBuilder::Add(ByteSpan bytes) {
  while (!bytes.empty()) {
    for (; !waiting_.empty() && waiting_.back().first == table_.added(); waiting_.pop_back()) {
      const Extent* extent = waiting_.back().second;
      running_.push_back({extent, table_.added() + extent->bytes, 0, false});
    }
    const uint64_t part = std::min<uint64_t>(bytes.size(), NextPartBytes());
    KEDGE_CHECK(part > 0);
    KEDGE_RETURN_IF_ERROR(AddPart(crc32c::Compute(bytes.data(), part), part));
    bytes = bytes.subspan(part);
  }
  return Status::Ok();
}

uint64_t StreamTableBuilder::AddKnown(uint64_t bytes_max) {
  const uint64_t begin = table_.added();
  while (running_.empty() && !waiting_.empty() && waiting_.back().first == table_.added()) {
    const Extent& extent = *waiting_.back().second;
    const uint64_t end = table_.added() + extent.bytes;
    const bool is_shared = waiting_.size() > 1 && waiting_[waiting_.size() - 2].first < end;
    if (extent.bytes > table_.LeftInBlock() || end > begin + bytes_max || is_shared) break;
    table_.AddChecksummed(extent.crc32c, extent.bytes);
    waiting_.pop_back();
  }
  return table_.added() - begin;
}

uint64_t StreamTableBuilder::UnknownBytes() const {
  if (waiting_.empty()) return UINT64_MAX;
  const auto& [begin, extent] = waiting_.back();
  return begin > table_.added() ? begin - table_.added() : extent->bytes;
}

void StreamTableBuilder::AddGap(uint64_t bytes) {
  KEDGE_CHECK(running_.empty() && (waiting_.empty() || waiting_.back().first >= table_.added() + bytes));
  table_.AddZeros(bytes);
}

}  // namespace kedge::redundancy
