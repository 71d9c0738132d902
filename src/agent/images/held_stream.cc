#include "agent/images/held_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "redundancy/geometry.h"
#include "redundancy/stream.h"

namespace kedge {
namespace {

// What is read at a time: as long as it stays in the cache for its checksums.
constexpr uint64_t kReadBytes = uint64_t{1} << 18;

// `trust`: what capture's checksums cover block by block need not be read.
Result<BlockTable> TableOf(const HeldStream& held, const ImageRecord& record, uint64_t record_bytes, uint32_t block_bytes,
                           bool trust) {
  KEDGE_ASSIGN_OR_RETURN(const redundancy::ImageStream stream, redundancy::ImageStream::Make(record, record_bytes));
  if (stream.bytes() != held.bytes()) {
    return Status(Code::kInternal, fmt::format("{}: its stream has {} bytes, and {} lie here", record.identity.ToString(),
                                               stream.bytes(), held.bytes()));
  }
  redundancy::StreamTableBuilder table(record, stream, block_bytes);
  Buffer buffer(kReadBytes);
  for (const redundancy::StreamPiece& piece : stream.pieces()) {
    if (piece.part == redundancy::StreamPart::kGap) {
      table.AddGap(piece.bytes);
      continue;
    }
    for (uint64_t done = 0; done < piece.bytes;) {
      const uint64_t known = trust ? table.AddKnown(piece.bytes - done) : 0;
      done += known;
      if (known > 0) continue;
      const uint64_t bytes = std::min({kReadBytes, piece.bytes - done, trust ? table.UnknownBytes() : UINT64_MAX});
      KEDGE_RETURN_IF_ERROR(held.Read(piece.stream_offset + done, bytes, buffer.data()));
      KEDGE_RETURN_IF_ERROR(table.Add(ByteSpan(buffer.data(), bytes)));
      done += bytes;
    }
  }
  return table.Finish();
}

}  // namespace

void HeldStream::Add(uint64_t offset, PieceSource source) {
  if (source.bytes == 0) return;
  bytes_ = std::max(bytes_, offset + source.bytes);
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), offset, [](uint64_t at, const Part& part) { return at < part.offset; });
  parts_.insert(after, Part{offset, std::move(source)});
}

HeldStream HeldStream::Of(const Image& image) {
  HeldStream stream;
  for (const ImageChunk& chunk : image.chunks) {
    if (chunk.in_own_object && chunk.IsLocal()) stream.Add(chunk.object_offset, chunk.Source(0, chunk.bytes));
  }
  stream.Add(image.record_object_offset, image.record.Source(0, image.record_bytes));
  return stream;
}

void HeldStream::AddRange(uint64_t offset, const OwnRange& range) {
  PieceSource source;
  source.tier = range.unit->tier;
  source.slot = range.slot;
  source.offset = range.offset;
  source.bytes = range.bytes;
  Add(offset, std::move(source));
}

HeldStream HeldStream::Of(const std::vector<OwnRange>& ranges) {
  HeldStream stream;
  for (const OwnRange& range : ranges) stream.AddRange(stream.bytes_, range);
  return stream;
}

std::vector<HeldStream::Part>::const_iterator HeldStream::PartAt(uint64_t offset) const {
  return std::upper_bound(parts_.begin(), parts_.end(), offset, [](uint64_t at, const Part& part) { return at < part.end(); });
}

Status HeldStream::Read(uint64_t offset, uint64_t bytes, std::byte* out) const {
  KEDGE_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  const uint64_t end = offset + bytes;
  for (auto part = PartAt(offset); offset < end; ++part) {
    const uint64_t gap_end = part == parts_.end() ? end : std::min(end, std::max(offset, part->offset));
    std::memset(out, 0, gap_end - offset);
    out += gap_end - offset;
    offset = gap_end;
    if (offset == end) break;
    PieceSource wanted = part->source;
    wanted.offset += offset - part->offset;
    wanted.bytes = std::min(end, part->end()) - offset;
    KEDGE_RETURN_IF_ERROR(wanted.Read(out));
    out += wanted.bytes;
    offset += wanted.bytes;
  }
  return Status::Ok();
}

Status HeldStream::Write(uint64_t offset, uint64_t bytes, const std::byte* from) const {
  const uint64_t end = offset + bytes;
  for (auto part = PartAt(offset); offset < end; ++part) {
    if (part == parts_.end() || part->offset > offset || part->source.tier == nullptr) {
      return Status(Code::kInvalidArgument, fmt::format("no slot holds byte {} of the stream", offset));
    }
    const uint64_t length = std::min(end, part->end()) - offset;
    KEDGE_RETURN_IF_ERROR(part->source.tier->Write(part->source.slot, part->source.offset + offset - part->offset, from, length));
    from += length;
    offset += length;
  }
  return Status::Ok();
}

Status HeldStream::WriteTo(redundancy::BlockTableBuilder* table, ByteSpan from) const {
  const uint64_t end = table->added() + from.size();
  KEDGE_CHECK(end <= bytes_);
  for (auto part = PartAt(table->added()); table->added() < end; ++part) {
    const bool is_here = part != parts_.end() && part->offset <= table->added() && part->source.tier != nullptr;
    const uint64_t part_end = is_here ? std::min(end, part->end()) : end;
    std::byte* const slot = is_here ? part->source.tier->SlotMemory(part->source.slot) : nullptr;
    if (slot == nullptr) {
      const uint64_t bytes = part_end - table->added();
      KEDGE_RETURN_IF_ERROR(Write(table->added(), bytes, from.data()));
      table->Add(from.first(bytes));
      from = from.subspan(bytes);
      continue;
    }
    while (table->added() < part_end) {
      const uint64_t bytes = std::min(part_end - table->added(), table->LeftInBlock());
      std::byte* const to = slot + part->source.offset + (table->added() - part->offset);
      table->AddChecksummed(crc32c::CopyAndChecksum(to, from.data(), bytes, 0, from.size()), bytes);
      from = from.subspan(bytes);
    }
  }
  return Status::Ok();
}

std::vector<HeldStream::MemoryPart> HeldStream::InMemory() const {
  std::vector<MemoryPart> parts;
  for (const Part& part : parts_) {
    const std::byte* slot = part.source.tier == nullptr ? nullptr : part.source.tier->SlotMemory(part.source.slot);
    if (slot != nullptr) parts.push_back({part.offset, {slot + part.source.offset, part.source.bytes}, part.source.tier});
  }
  return parts;
}

Result<BlockTable> MakeTable(const HeldStream& held, const ImageRecord& record, uint64_t record_bytes, uint32_t block_bytes) {
  return TableOf(held, record, record_bytes, block_bytes, /*trust=*/true);
}

Result<BlockTable> MakeProvedTable(const HeldStream& held, const ImageRecord& record, uint64_t record_bytes,
                                   uint32_t block_bytes) {
  return TableOf(held, record, record_bytes, block_bytes, /*trust=*/false);
}

Status ProveImage(const HeldStream& held, uint64_t record_offset, uint64_t record_bytes) {
  Buffer encoded(record_bytes);
  KEDGE_RETURN_IF_ERROR(held.Read(record_offset, record_bytes, encoded.data()));
  KEDGE_ASSIGN_OR_RETURN(const ImageRecord record, DecodeImageRecord(encoded));
  return MakeProvedTable(held, record, record_bytes, redundancy::BlockBytesFor(held.bytes())).status();
}

}  // namespace kedge
