#include "format/node_records.h"

#include "format/envelope.h"

namespace kedge {

namespace {

constexpr size_t kPlacementBytesMin = 6;

bool PlacementIsValid(const PlacementTable& table, const Placement& placement) {
  switch (placement.kind) {
    case PlacementKind::kSlot: return placement.tier < table.tiers.size();
    case PlacementKind::kStore: return placement.tier == 0 && placement.slot == 0;
    case PlacementKind::kFile: return placement.tier < table.tiers.size() && placement.slot < table.files.size();
  }
  return false;
}

const char* TableFault(const PlacementTable& table) {
  for (const std::string& tier : table.tiers) {
    if (tier.empty() || tier.size() > kTierKeyBytesMax) return "tier key empty or too long";
  }
  for (const std::string& file : table.files) {
    if (file.empty() || file.size() > kPathBytesMax) return "file path empty or too long";
  }
  for (const Placement& placement : table.chunks) {
    if (!PlacementIsValid(table, placement)) return "a chunk's tier or file is out of range";
  }
  return nullptr;
}

void EncodePlacement(Encoder& encoder, const Placement& placement) {
  encoder.U8(static_cast<uint8_t>(placement.kind));
  encoder.Varint(placement.tier);
  encoder.Varint(placement.slot);
  encoder.Varint(placement.slot_generation);
  encoder.Varint(placement.offset);
  encoder.Varint(placement.bytes);
}

Placement DecodePlacement(Decoder& decoder, const PlacementTable& table) {
  Placement placement;
  placement.kind = static_cast<PlacementKind>(decoder.U8());
  placement.tier = decoder.Varint32();
  placement.slot = decoder.Varint32();
  placement.slot_generation = decoder.Varint();
  placement.offset = decoder.Varint();
  placement.bytes = decoder.Varint();
  decoder.Require(PlacementIsValid(table, placement), "a chunk's tier or file is out of range");
  return placement;
}

void EncodeTable(Encoder& encoder, const PlacementTable& table) {
  EncodeFields(encoder, table.identity);
  encoder.Varint(table.tiers.size());
  for (const std::string& tier : table.tiers) encoder.String(tier);
  encoder.Varint(table.files.size());
  for (const std::string& file : table.files) encoder.String(file);
  encoder.Varint(table.chunks.size());
  for (const Placement& placement : table.chunks) EncodePlacement(encoder, placement);
}

std::vector<std::string> DecodeStrings(Decoder& decoder, size_t bytes_max) {
  std::vector<std::string> strings;
  const size_t count = decoder.Count(1);
  strings.reserve(count);
  for (size_t i = 0; i < count && decoder.ok(); ++i) {
    strings.emplace_back(decoder.String(bytes_max));
    decoder.Require(!strings.back().empty(), "a tier key or path is empty");
  }
  return strings;
}

void DecodeTable(Decoder& decoder, const StoreId& store_id, PlacementTable* table) {
  DecodeFields(decoder, store_id, &table->identity);
  table->tiers = DecodeStrings(decoder, kTierKeyBytesMax);
  table->files = DecodeStrings(decoder, kPathBytesMax);
  const size_t count = decoder.Count(kPlacementBytesMin);
  table->chunks.reserve(count);
  for (size_t i = 0; i < count && decoder.ok(); ++i) table->chunks.push_back(DecodePlacement(decoder, *table));
}

Status CallerError(RecordKind kind, const std::string& fault) {
  return Status(Code::kInternal, std::string(RecordKindName(kind)) + ": " + fault);
}

Status ValidateTable(RecordKind kind, const PlacementTable& table) {
  if (Status status = Validate(table.identity); !status.ok()) return CallerError(kind, status.message());
  if (const char* fault = TableFault(table)) return CallerError(kind, fault);
  return Status::Ok();
}

}  // namespace

Status EncodePlacementTable(const PlacementTable& table, Buffer* out) {
  KEDGE_RETURN_IF_ERROR(ValidateTable(RecordKind::kPlacement, table));
  RecordEncoder record(RecordKind::kPlacement, table.identity.generation.store_id, out);
  EncodeTable(record.encoder(), table);
  record.Finish();
  return Status::Ok();
}

Result<PlacementTable> DecodePlacementTable(ByteSpan bytes) {
  KEDGE_ASSIGN_OR_RETURN(const Record record, OpenRecord(bytes, RecordKind::kPlacement));
  Decoder decoder(record.payload);
  PlacementTable table;
  DecodeTable(decoder, record.store_id, &table);
  KEDGE_RETURN_IF_ERROR(decoder.Finish(RecordKindName(record.kind)));
  return table;
}

Status EncodeLocalRecord(const LocalRecord& local, Buffer* out) {
  KEDGE_RETURN_IF_ERROR(ValidateTable(RecordKind::kLocal, local.table));
  if (!PlacementIsValid(local.table, local.image_record)) {
    return CallerError(RecordKind::kLocal, "the image record's tier is out of range");
  }
  if (local.store.size() > kPathBytesMax) return CallerError(RecordKind::kLocal, "store path too long");
  RecordEncoder record(RecordKind::kLocal, local.table.identity.generation.store_id, out);
  Encoder& encoder = record.encoder();
  EncodeTable(encoder, local.table);
  EncodePlacement(encoder, local.image_record);
  encoder.U32(local.image_record_crc32c);
  encoder.String(local.store);
  encoder.I64(local.wall_time_ns);
  record.Finish();
  return Status::Ok();
}

Result<LocalRecord> DecodeLocalRecord(ByteSpan bytes) {
  KEDGE_ASSIGN_OR_RETURN(const Record record, OpenRecord(bytes, RecordKind::kLocal));
  Decoder decoder(record.payload);
  LocalRecord local;
  DecodeTable(decoder, record.store_id, &local.table);
  local.image_record = DecodePlacement(decoder, local.table);
  local.image_record_crc32c = decoder.U32();
  local.store = decoder.String(kPathBytesMax);
  local.wall_time_ns = decoder.I64();
  KEDGE_RETURN_IF_ERROR(decoder.Finish(RecordKindName(record.kind)));
  return local;
}

}  // namespace kedge
