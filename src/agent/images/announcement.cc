#include "agent/images/announcement.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/space/tiers.h"
#include "base/crc32c.h"
#include "os/files/files.h"

namespace kedge {

Status RefusedEntry(std::string why) {
  return Status(Code::kInvalidArgument, std::move(why));
}

Status CheckRange(const Session& session, const SlotRange& range, TierUnit** unit) {
  if (range.tier >= session.tiers.size()) {
    return RefusedEntry(fmt::format("tier {} of {}", range.tier, session.tiers.size()));
  }
  *unit = session.tiers[range.tier];
  const TierInfo& info = (*unit)->info();
  if (range.slot >= info.slots || range.offset > info.slot_bytes || range.bytes > info.slot_bytes - range.offset) {
    return RefusedEntry(fmt::format("{} bytes at {} of slot {} in tier {}", range.bytes, range.offset, range.slot, info.name));
  }
  const SlotEntry entry = (*unit)->space->Get(range.slot);
  if (entry.state != SlotState::kAssigned || entry.owner != session.id || entry.generation != range.slot_generation) {
    return RefusedEntry(fmt::format("slot {} of tier {} is not assigned to session {} in generation {}", range.slot, info.name,
                                    session.id, range.slot_generation));
  }
  return Status::Ok();
}

Status CheckIdentity(const Session& session, const ImageIdentity& identity) {
  const Hello& hello = session.hello;
  const Generation& generation = identity.generation;
  if (generation.store_id != hello.store_id || generation.job != hello.job || generation.attempt != hello.attempt ||
      identity.rank != hello.rank || identity.ranks != hello.ranks) {
    return RefusedEntry(fmt::format("image of {} from session {}, which is {} attempt {} rank {} of {}", identity.ToString(),
                                    session.id, hello.job, hello.attempt, hello.rank, hello.ranks));
  }
  return Status::Ok();
}

Result<std::string> RoutedFilePath(const TierUnit& unit, const std::string& relative) {
  // Below "files/", and no way out of it.
  if (!relative.starts_with("files/") || ("/" + relative + "/").find("/../") != std::string::npos ||
      relative.find('\0') != std::string::npos) {
    return RefusedEntry(fmt::format("a routed file at \"{}\"", relative));
  }
  return os::JoinPath(TierFolder(unit.info()), relative);
}

namespace {

Result<Buffer> ReadAssigned(const Session& session, const SlotRange& range) {
  TierUnit* unit = nullptr;
  KEDGE_RETURN_IF_ERROR(CheckRange(session, range, &unit));
  Buffer bytes(range.bytes);
  KEDGE_RETURN_IF_ERROR(unit->tier->Read(range.slot, range.offset, bytes.data(), bytes.size()));
  return bytes;
}

// Where the placement table says that a chunk is. `begun`: what progress has said of it; null: nothing.
Status LocateChunk(const Session& session, const PlacementTable& table, size_t index, const ImageChunk* begun,
                   ImageChunk* chunk) {
  const Placement& placement = table.chunks[index];
  if (placement.kind == PlacementKind::kStore) {
    if (chunk->in_own_object) return RefusedEntry("a chunk of the image's own object that is not on the node");
    return Status::Ok();
  }
  const auto unit = std::find_if(session.tiers.begin(), session.tiers.end(),
                                 [&](const TierUnit* candidate) { return candidate->info().key == table.tiers[placement.tier]; });
  if (unit == session.tiers.end()) return RefusedEntry("a chunk in a tier that is not the session's");
  if (placement.kind == PlacementKind::kFile) {
    KEDGE_ASSIGN_OR_RETURN(chunk->file, RoutedFilePath(**unit, table.files[placement.slot]));
    chunk->file_unit = *unit;
    return Status::Ok();
  }
  chunk->PutIn({*unit, placement.slot, placement.slot_generation, placement.offset});
  if (begun != nullptr && begun->place() == chunk->place()) {
    // A chunk that progress has named keeps its slot, also when that has been returned since.
    const uint64_t slot_bytes = chunk->unit->info().slot_bytes;
    if (chunk->bytes > slot_bytes - chunk->offset) return RefusedEntry("a chunk that reaches out of its slot");
    return Status::Ok();
  }
  TierUnit* same = nullptr;
  const SlotRange range{static_cast<uint32_t>(unit - session.tiers.begin()), chunk->slot, chunk->slot_generation, chunk->offset,
                        chunk->bytes};
  return CheckRange(session, range, &same).WithContext(fmt::format("chunk {} is not where it was captured", index));
}

}  // namespace

Result<ImageIdentity> ReadBegin(const Session& session, const ImageBegin& begin) {
  KEDGE_ASSIGN_OR_RETURN(const Buffer bytes, ReadAssigned(session, begin.identity));
  KEDGE_ASSIGN_OR_RETURN(ImageIdentity identity, DecodeImageIdentity(bytes));
  KEDGE_RETURN_IF_ERROR(CheckIdentity(session, identity));
  return identity;
}

Result<AnnouncedImage> ReadEnd(const Session& session, const ImageEnd& end, uint64_t piece_bytes) {
  KEDGE_ASSIGN_OR_RETURN(const Buffer bytes, ReadAssigned(session, end.range));
  if (end.record_bytes > bytes.size()) return RefusedEntry("the image record is longer than what was announced");
  if (crc32c::Compute(bytes.data(), bytes.size()) != end.crc32c) return Status(Code::kCorrupt, "image record: bad checksum");
  AnnouncedImage announced;
  const ByteSpan record_bytes = ByteSpan(bytes).first(end.record_bytes);
  KEDGE_ASSIGN_OR_RETURN(announced.record, DecodeImageRecord(record_bytes));
  ByteSpan tables = ByteSpan(bytes).subspan(end.record_bytes);
  if (end.gap_table_bytes > tables.size()) return RefusedEntry("the gap table is longer than what was announced");
  if (end.gap_table_bytes > 0) {
    KEDGE_ASSIGN_OR_RETURN(announced.gaps, DecodeGapTable(tables.last(end.gap_table_bytes)));
  }
  tables = tables.first(tables.size() - end.gap_table_bytes);
  KEDGE_ASSIGN_OR_RETURN(announced.table, DecodePlacementTable(tables));
  announced.record_crc32c = crc32c::Compute(record_bytes.data(), record_bytes.size());
  KEDGE_ASSIGN_OR_RETURN(announced.captured, CapturedRuns(announced.record, piece_bytes));
  KEDGE_RETURN_IF_ERROR(CheckIdentity(session, announced.record.identity));
  const PlacementTable& table = announced.table;
  if (table.identity != announced.record.identity) return RefusedEntry("record and placement table are of two images");
  if (table.chunks.size() != announced.record.chunks.size()) return RefusedEntry("record and placement table differ in chunks");
  for (size_t i = 0; i < table.chunks.size(); ++i) {
    if (table.chunks[i].bytes != announced.record.chunks[i].bytes) {
      return RefusedEntry("record and placement table differ in lengths");
    }
  }
  return announced;
}

Status LocateChunks(const Session& session, const Image* begun, AnnouncedImage* announced) {
  const PlacementTable& table = announced->table;
  const size_t begun_chunks = begun == nullptr ? 0 : begun->chunks.size();
  if (begun_chunks > table.chunks.size()) return RefusedEntry("chunks vanished at the image's end");
  for (size_t i = 0; i < table.chunks.size(); ++i) {
    const ImageChunk* const before = i < begun_chunks ? &begun->chunks[i] : nullptr;
    ImageChunk chunk;
    chunk.bytes = table.chunks[i].bytes;
    chunk.offset = table.chunks[i].offset;  // of a file, too
    chunk.in_own_object = announced->record.chunks[i].object == 0;
    chunk.object_offset = announced->record.chunks[i].object_offset;
    if (before != nullptr && before->released) {
      const Placement& placement = table.chunks[i];
      chunk.PutIn({nullptr, placement.slot, placement.slot_generation, placement.offset});
      const bool is_same =
          placement.kind == PlacementKind::kSlot && before->IsSame(chunk) && before->bytes == chunk.bytes && chunk.in_own_object;
      if (!is_same) return RefusedEntry("a chunk that was whole has become another one");
      chunk = *before;
    } else {
      KEDGE_RETURN_IF_ERROR(LocateChunk(session, table, i, before, &chunk));
    }
    announced->chunks.push_back(std::move(chunk));
  }
  return Status::Ok();
}

}  // namespace kedge
