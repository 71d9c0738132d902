#include "format/testing/sample_records.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace kedge::testing {

namespace {

Status EncodeAny(const ImageRecord& record, Buffer* out) {
  return EncodeImageRecord(record, out);
}
Status EncodeAny(const PlacementTable& record, Buffer* out) {
  return EncodePlacementTable(record, out);
}
Status EncodeAny(const LocalRecord& record, Buffer* out) {
  return EncodeLocalRecord(record, out);
}
Status EncodeAny(const SetRecord& record, Buffer* out) {
  return EncodeSetRecord(record, out);
}
Status EncodeAny(const ParityRecord& record, Buffer* out) {
  return EncodeParityRecord(record, out);
}
Status EncodeAny(const ImageIdentity& record, Buffer* out) {
  EncodeImageIdentity(record, out);
  return Status::Ok();
}
template <typename T>
Status EncodeAny(const T& record, Buffer* out) {
  Encode(record, out);
  return Status::Ok();
}

template <typename T>
Status Again(const Result<T>& decoded, ByteSpan bytes) {
  if (!decoded.ok()) return decoded.status();
  Buffer again;
  KEDGE_RETURN_IF_ERROR(EncodeAny(*decoded, &again));
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) {
    return Status(Code::kInternal, "decodes, but to something that encodes to other bytes");
  }
  return Status::Ok();
}

constexpr int64_t kWallTimeNs = 1'795'240'800'123'456'789;

}  // namespace

StoreId SampleStoreId() {
  return {.high = 0x0123456789abcdefULL, .low = 0xfedcba9876543210ULL};
}

ImageIdentity SampleIdentity() {
  return {{SampleStoreId(), "copper", "heat/\xc3\xbc", 42, 3, 1}, 2, 4};
}

ImageRecord SampleImage() {
  ImageRecord image;
  image.identity = SampleIdentity();
  image.group = "fields";
  image.wall_time_ns = kWallTimeNs;
  Region grid;
  grid.id = 7;
  grid.type = ElementType::kFloat64;
  grid.column_major = true;
  grid.name = "temperature";
  grid.element_bytes = 8;
  grid.bytes = 8 * 6;
  grid.shape = {3, 2};
  grid.global_shape = {12, 2};
  grid.global_offset = {6, 0};
  Region empty;
  empty.id = -1;
  empty.memory = MemoryKind::kDevice;
  Region object;
  object.id = 0;
  object.kind = RegionKind::kObject;
  object.bytes = 300;
  Region file;
  file.id = 0;
  file.kind = RegionKind::kFile;
  file.name = "out/restart.h5";
  file.bytes = 20;
  file.file_mode = 0640;
  image.regions = {grid, empty, object, file};
  image.objects = {"names/heat%2F%C3%BC/41-3-1/data/r2.c1"};
  image.chunks = {{0, 0, 320}, {1, 4096, 48}};
  image.extents = {{0, 0, 48, 1, 0, 0x11111111},
                   {2, 0, 256, 0, 0, 0x22222222},
                   {2, 256, 44, 0, 256, 0x33333333},
                   {3, 0, 20, 0, 300, 0x44444444}};
  image.annotations = {{"step", "1000"}, {"empty", ""}};
  return image;
}

ImageRecord EmptyImage() {
  ImageRecord image;
  image.identity = SampleIdentity();
  return image;
}

PlacementTable SamplePlacementTable() {
  PlacementTable table;
  table.identity = SampleIdentity();
  table.tiers = {"memory", "ssd"};
  table.files = {"routed/1/restart.h5"};
  table.chunks = {{PlacementKind::kSlot, 0, 17, 5'000'000'000, 4096, 320},
                  {PlacementKind::kStore, 0, 0, 0, 0, 48},
                  {PlacementKind::kFile, 1, 0, 0, 0, 20}};
  return table;
}

LocalRecord SampleLocalRecord() {
  return {
      SamplePlacementTable(), {PlacementKind::kSlot, 0, 17, 5'000'000'000, 8192, 401}, 0x0badcafe, "/store/copper", kWallTimeNs};
}

StoreRecord SampleStoreRecord() {
  return {SampleStoreId(), kWallTimeNs, "node1"};
}
JobRecord SampleJobRecord() {
  return {SampleStoreId(), "copper", kWallTimeNs};
}
NameRecord SampleNameRecord() {
  return {SampleStoreId(), "copper", "heat/\xc3\xbc", kWallTimeNs};
}

AttemptRecord SampleAttemptRecord() {
  return {SampleStoreId(),
          "copper",
          3,
          "node1",
          "6b2f6c0e-7f0c-4a5e-9c8f-0d5c1a2b3c4d",
          "0123456789abcdef0123456789abcdef",
          4026531836,
          4711,
          123456,
          60.0,
          kWallTimeNs,
          4,
          {2, 3}};
}

AttemptEndRecord SampleAttemptEndRecord() {
  return {SampleStoreId(), "copper", 3, kWallTimeNs};
}

PartRecord SamplePartRecord() {
  PartRecord part;
  part.generation = SampleIdentity().generation;
  part.ranks = 4;
  part.images = {{2, "data/r2", 4096, 401, 0x0badcafe, 368}, {3, "data/r3", 8192, 77, 0xfeedface, 0, 200, 0x0defaced}};
  part.references = {"names/heat%2F%C3%BC/41-3-1"};
  return part;
}

VersionRecord SampleVersionRecord() {
  return {SampleIdentity().generation,   4, {{0, 2, 0x01020304, {{0, 1, 2}}}, {2, 2, 0x05060708, {{2, 1, 2}}}}, 1472, kWallTimeNs,
          {"names/heat%2F%C3%BC/41-3-1"}};
}

VersionRecord SampleWholeVersionRecord() {
  PartRecord part = SamplePartRecord();
  part.ranks = 2;
  for (uint32_t rank = 0; rank < part.ranks; ++rank) part.images[rank].rank = rank;
  Buffer bytes;
  Encode(part, &bytes);
  const uint32_t crc32c = crc32c::Compute(bytes.data(), bytes.size());
  return {part.generation, 2, {{0, 2, crc32c, {{0, 1, 2}}}}, 368, kWallTimeNs, part.references, std::move(bytes)};
}

PinRecord SamplePinRecord() {
  return {SampleIdentity().generation, kWallTimeNs};
}
AttemptDrainRecord SampleAttemptDrainRecord() {
  return {SampleStoreId(), "copper", 3, kWallTimeNs};
}
RemovedRecord SampleRemovedRecord() {
  return {SampleIdentity().generation, kWallTimeNs};
}
RestoredRecord SampleRestoredRecord() {
  return {SampleIdentity().generation, SampleIdentity().generation.attempt + 1, 1, kWallTimeNs, {2, 4}};
}

ReachedRecord SampleReachedRecord() {
  return {SampleIdentity().generation, kWallTimeNs};
}

BlockMap SampleBlockMap() {
  BlockMap map;
  map.identity = SampleIdentity();
  map.block_bytes = 16384;
  map.objects = {{"names/heat%2F%C3%BC/41-3-1/data/r2", 1 << 20}};
  map.runs = {{kSharedBlocks, 2, 65536}, {kZeroBlocks, 300, 0}, {kOwnBlocks, 1, 0}};
  map.fingerprints.resize(3);
  for (size_t i = 0; i < 3; ++i) map.fingerprints[i].fill(static_cast<std::byte>(0xa0 + i));
  return map;
}

BlockMap SampleBlockMapOfPlaces() {
  BlockMap map;
  map.identity = SampleIdentity();
  map.block_bytes = 1 << 20;
  map.runs = {{kOwnBlocks, 8, 24 << 20}, {kOwnBlocks, 3, 64 << 20}};
  map.has_fingerprints = false;
  return map;
}

BaseRecord SampleBaseRecord() {
  return {SampleIdentity().generation, kWallTimeNs, {"names/heat%2F%C3%BC/40-3-1", "names/heat%2F%C3%BC/41-3-1"}};
}

SetRecord SampleSetRecord() {
  SetRecord set;
  set.identity = {SampleIdentity().generation, 4, 0x1122334455667788ULL, 1, 0};
  set.scheme = Scheme::kReedSolomon;
  set.parity = 2;
  const auto record = AsBytes("image record");
  set.members = {{"node1", "rack1", 2, {5000, kBlockBytesMin, {0x01020304, 0x05060708}}, {record.begin(), record.end()}},
                 {"node2", "rack2", 0, {13, 4 * kBlockBytesMin, {0x090a0b0c}}, {record.begin(), record.end()}},
                 {"node3", "node3", std::nullopt, {}, {}}};
  return set;
}

SetRecord SampleSetRecordOfNatural() {
  SetRecord set = SampleSetRecord();
  set.scheme = Scheme::kXor;
  set.parity = 1;
  set.members.pop_back();
  Fingerprint both = {};
  std::ranges::copy(AsBytes("XXH3 of a block."), both.begin());
  set.members[0].blocks = {12300, kBlockBytesMin, {1, 2, 3, 4}};
  set.members[0].natural = {kBlockBytesMin, {{4096, both}, {8192, both}}};
  set.members[1].blocks = {4108, kBlockBytesMin, {5, 6}};
  set.members[1].natural = {kBlockBytesMin, {{0, both}}};
  return set;
}

ParityRecord SampleParityRecord() {
  return {SampleSetRecord().identity,
          1,
          0x0badcafe,
          {12288, 2 * kBlockBytesMin, {0x0d0e0f10, 0x11121314}},
          {"memory", "ssd"},
          {{0, 17, 5'000'000'000, 4096, 8192}, {1, 3, 1, 0, 4096}}};
}

Status DecodeAndEncodeAgain(RecordKind kind, ByteSpan bytes) {
  switch (kind) {
    case RecordKind::kStore: return Again(DecodeStoreRecord(bytes), bytes);
    case RecordKind::kJob: return Again(DecodeJobRecord(bytes), bytes);
    case RecordKind::kName: return Again(DecodeNameRecord(bytes), bytes);
    case RecordKind::kAttempt: return Again(DecodeAttemptRecord(bytes), bytes);
    case RecordKind::kAttemptEnd: return Again(DecodeAttemptEndRecord(bytes), bytes);
    case RecordKind::kImage: return Again(DecodeImageRecord(bytes), bytes);
    case RecordKind::kPlacement: return Again(DecodePlacementTable(bytes), bytes);
    case RecordKind::kLocal: return Again(DecodeLocalRecord(bytes), bytes);
    case RecordKind::kPart: return Again(DecodePartRecord(bytes), bytes);
    case RecordKind::kVersion: return Again(DecodeVersionRecord(bytes), bytes);
    case RecordKind::kPin: return Again(DecodePinRecord(bytes), bytes);
    case RecordKind::kImageIdentity: return Again(DecodeImageIdentity(bytes), bytes);
    case RecordKind::kAttemptDrain: return Again(DecodeAttemptDrainRecord(bytes), bytes);
    case RecordKind::kRemoved: return Again(DecodeRemovedRecord(bytes), bytes);
    case RecordKind::kSet: return Again(DecodeSetRecord(bytes), bytes);
    case RecordKind::kParity: return Again(DecodeParityRecord(bytes), bytes);
    case RecordKind::kRestored: return Again(DecodeRestoredRecord(bytes), bytes);
    case RecordKind::kReached: return Again(DecodeReachedRecord(bytes), bytes);
    case RecordKind::kBlockMap: return Again(DecodeBlockMap(bytes), bytes);
    case RecordKind::kBase: return Again(DecodeBaseRecord(bytes), bytes);
  }
  return Status(Code::kInvalidArgument, "no such kind");
}

Buffer Enclose(RecordKind kind, ByteSpan payload, uint16_t format_version) {
  Buffer bytes;
  RecordEncoder record(kind, SampleStoreId(), &bytes, format_version);
  record.encoder().Raw(payload);
  record.Finish();
  return bytes;
}

uint16_t FormatVersionOf(ByteSpan record) {
  uint16_t format_version = 0;
  std::memcpy(&format_version, record.data() + 10, sizeof(format_version));
  return format_version;
}

Buffer WithFormatVersion(ByteSpan record, uint16_t format_version) {
  Buffer bytes(record.begin(), record.end());
  std::memcpy(bytes.data() + 10, &format_version, sizeof(format_version));
  const size_t body_bytes = bytes.size() - 4;
  const uint32_t checksum = crc32c::Compute(bytes.data(), body_bytes);
  std::memcpy(bytes.data() + body_bytes, &checksum, sizeof(checksum));
  return bytes;
}

std::vector<Sample> AllSamples() {
  std::vector<Sample> samples;
  const auto add = [&samples](const char* name, RecordKind kind, const auto& record) {
    Buffer bytes;
    const Status status = EncodeAny(record, &bytes);
    KEDGE_CHECK(status.ok());
    samples.push_back({name, kind, std::move(bytes), [kind](ByteSpan any) { return DecodeAndEncodeAgain(kind, any); }});
  };
  add("store", RecordKind::kStore, SampleStoreRecord());
  add("job", RecordKind::kJob, SampleJobRecord());
  add("name", RecordKind::kName, SampleNameRecord());
  add("attempt", RecordKind::kAttempt, SampleAttemptRecord());
  add("attempt-end", RecordKind::kAttemptEnd, SampleAttemptEndRecord());
  add("image", RecordKind::kImage, SampleImage());
  add("image-empty", RecordKind::kImage, EmptyImage());
  add("placement", RecordKind::kPlacement, SamplePlacementTable());
  add("local", RecordKind::kLocal, SampleLocalRecord());
  add("part", RecordKind::kPart, SamplePartRecord());
  add("version", RecordKind::kVersion, SampleVersionRecord());
  add("version-whole", RecordKind::kVersion, SampleWholeVersionRecord());
  add("pin", RecordKind::kPin, SamplePinRecord());
  add("image-identity", RecordKind::kImageIdentity, SampleIdentity());
  add("attempt-drain", RecordKind::kAttemptDrain, SampleAttemptDrainRecord());
  add("removed", RecordKind::kRemoved, SampleRemovedRecord());
  add("set", RecordKind::kSet, SampleSetRecord());
  add("set-of-natural", RecordKind::kSet, SampleSetRecordOfNatural());
  add("parity", RecordKind::kParity, SampleParityRecord());
  add("restored", RecordKind::kRestored, SampleRestoredRecord());
  add("reached", RecordKind::kReached, SampleReachedRecord());
  add("block-map", RecordKind::kBlockMap, SampleBlockMap());
  add("block-map-of-places", RecordKind::kBlockMap, SampleBlockMapOfPlaces());
  add("base", RecordKind::kBase, SampleBaseRecord());
  return samples;
}

}  // namespace kedge::testing
