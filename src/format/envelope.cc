#include "format/envelope.h"

#include <cstring>

#include "base/crc32c.h"

namespace kedge {

namespace {

constexpr char kMagic[8] = {'K', 'E', 'D', 'G', 'E', 'R', 'E', 'C'};

template <typename T>
T Load(ByteSpan bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

Status Corrupt(RecordKind kind, const std::string& why) {
  return Status(Code::kCorrupt, std::string(RecordKindName(kind)) + ": " + why);
}

}  // namespace

const char* RecordKindName(RecordKind kind) {
  switch (kind) {
    case RecordKind::kStore: return "store record";
    case RecordKind::kJob: return "job record";
    case RecordKind::kName: return "name record";
    case RecordKind::kAttempt: return "attempt record";
    case RecordKind::kAttemptEnd: return "attempt end record";
    case RecordKind::kImage: return "image record";
    case RecordKind::kPlacement: return "placement table";
    case RecordKind::kLocal: return "local record";
    case RecordKind::kPart: return "part record";
    case RecordKind::kVersion: return "version record";
    case RecordKind::kPin: return "pin record";
    case RecordKind::kImageIdentity: return "image identity";
    case RecordKind::kAttemptDrain: return "attempt drain record";
    case RecordKind::kRemoved: return "removed record";
    case RecordKind::kSet: return "set record";
    case RecordKind::kParity: return "parity record";
    case RecordKind::kRestored: return "restored record";
    case RecordKind::kReached: return "reached record";
    case RecordKind::kBlockMap: return "block map";
    case RecordKind::kBase: return "base record";
  }
  return "record of an unknown kind";
}

RecordEncoder::RecordEncoder(RecordKind kind, const StoreId& store_id, Buffer* out, uint16_t format_version)
    : encoder_(*out), begin_(out->size()) {
  encoder_.Raw(std::as_bytes(std::span(kMagic)));
  encoder_.U16(static_cast<uint16_t>(kind));
  encoder_.U16(format_version);
  encoder_.U32(0);
  encoder_.U64(0);  // patched by Finish
  encoder_.U64(store_id.low);
  encoder_.U64(store_id.high);
}

void RecordEncoder::Finish() {
  const std::span<std::byte> record = encoder_.Written(begin_);
  const uint64_t payload_bytes = record.size() - kEnvelopeHeaderBytes;
  std::memcpy(record.data() + 16, &payload_bytes, sizeof(payload_bytes));
  encoder_.U32(crc32c::Compute(record.data(), record.size()));
  encoder_.Finish();
}

Result<uint64_t> RecordBytes(ByteSpan prefix) {
  if (prefix.size() < kEnvelopeHeaderBytes) return Status(Code::kCorrupt, "too short to be a record");
  if (std::memcmp(prefix.data(), kMagic, sizeof(kMagic)) != 0) {
    return Status(Code::kCorrupt, "no record of Kedge begins here");
  }
  const auto payload_bytes = Load<uint64_t>(prefix, 16);
  if (payload_bytes > kRecordBytesMax - kEnvelopeBytes) {
    return Status(Code::kCorrupt, "a record announces " + std::to_string(payload_bytes) + " bytes");
  }
  return payload_bytes + kEnvelopeBytes;
}

Result<Record> OpenRecord(ByteSpan bytes, RecordKind kind) {
  if (bytes.empty()) return Corrupt(kind, "empty");
  const Result<uint64_t> announced = RecordBytes(bytes);
  if (!announced.ok()) return Corrupt(kind, announced.status().message());
  if (*announced != bytes.size()) {
    return Corrupt(kind, "has " + std::to_string(bytes.size()) + " bytes, announces " + std::to_string(*announced));
  }
  const size_t body_bytes = bytes.size() - 4;
  const auto stored = Load<uint32_t>(bytes, body_bytes);
  if (stored != crc32c::Compute(bytes.data(), body_bytes)) return Corrupt(kind, "its checksum does not match");

  Record record;
  record.kind = static_cast<RecordKind>(Load<uint16_t>(bytes, 8));
  record.format_version = Load<uint16_t>(bytes, 10);
  record.store_id = StoreId{.high = Load<uint64_t>(bytes, 32), .low = Load<uint64_t>(bytes, 24)};
  record.payload = bytes.subspan(kEnvelopeHeaderBytes, body_bytes - kEnvelopeHeaderBytes);
  if (record.kind != kind) return Corrupt(kind, std::string("found a ") + RecordKindName(record.kind));
  const uint16_t newest = FormatVersionNewest(kind);
  if (record.format_version < kFormatVersionOldest || record.format_version > newest) {
    const bool is_newer = record.format_version > newest;
    return Status(Code::kUnsupported, std::string(RecordKindName(kind)) + ": format version " +
                                          std::to_string(record.format_version) + "; this Kedge reads " +
                                          std::to_string(kFormatVersionOldest) + " to " + std::to_string(newest) +
                                          (is_newer ? ", use the newer one that wrote it" : ", use the older one that wrote it"));
  }
  if (Load<uint32_t>(bytes, 12) != 0) return Corrupt(kind, "a reserved field is not zero");
  return record;
}

Status CheckStoreId(const StoreId& found, const StoreId& expected, const char* what) {
  if (found == expected) return Status::Ok();
  return Status(Code::kMismatch,
                std::string(what) + ": belongs to store " + found.ToHex() + ", not to this one, " + expected.ToHex());
}

}  // namespace kedge
