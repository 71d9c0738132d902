#include "format/store_records.h"

#include <utility>

#include "base/crc32c.h"
#include "format/envelope.h"
#include "format/image_record.h"

namespace kedge {

namespace {

constexpr size_t kImageEntryBytesMin = 10;
constexpr size_t kPartEntryBytesMin = 10;
constexpr size_t kRankRunBytesMin = 3;

std::string DecodeText(Decoder& decoder, size_t bytes_max) {
  return std::string(decoder.String(bytes_max));
}

uint32_t DecodeRanks(Decoder& decoder) {
  const uint64_t ranks = decoder.VarintAtMost(kRanksMax);
  decoder.Require(ranks >= 1, "the number of ranks is zero");
  return static_cast<uint32_t>(ranks);
}

uint32_t DecodeAttempt(Decoder& decoder) {
  const uint32_t attempt = decoder.Varint32();
  decoder.Require(attempt >= 1, "the attempt is zero");
  return attempt;
}

void EncodeFields(Encoder& encoder, const AttemptRange& range) {
  encoder.Varint(range.first);
  encoder.Varint(range.end);
}

// One of `attempt`.
AttemptRange DecodeRange(Decoder& decoder, uint32_t attempt) {
  AttemptRange range;
  range.first = decoder.Varint32();
  range.end = decoder.Varint32();
  decoder.Require(range.first <= range.end && range.end <= attempt, "attempts beside it are not before it");
  return range;
}

ImageEntry DecodeImageEntry(Decoder& decoder) {
  ImageEntry entry;
  entry.rank = decoder.Varint32();
  entry.object = DecodeText(decoder, kObjectKeyBytesMax);
  decoder.Require(!entry.object.empty(), "an object key is empty");
  entry.record_offset = decoder.VarintAtMost(INT64_MAX);
  entry.record_bytes = decoder.VarintAtMost(kRecordBytesMax);
  entry.record_crc32c = decoder.U32();
  entry.image_bytes = decoder.Varint();
  entry.map_bytes = decoder.VarintAtMost(kRecordBytesMax);
  if (entry.map_bytes > 0) entry.map_crc32c = decoder.U32();
  return entry;
}

void EncodeReferences(Encoder& encoder, const std::vector<std::string>& references) {
  encoder.Varint(references.size());
  for (const std::string& reference : references) encoder.String(reference);
}

std::vector<std::string> DecodeReferences(Decoder& decoder) {
  std::vector<std::string> references;
  const size_t count = decoder.Count(2);
  references.reserve(count);
  for (size_t i = 0; i < count && decoder.ok(); ++i) {
    references.push_back(DecodeText(decoder, kObjectKeyBytesMax));
    const bool increasing = i == 0 || references[i - 1] < references[i];
    decoder.Require(increasing && !references[i].empty(), "references empty or out of order");
  }
  return references;
}

// AttemptEndRecord and AttemptDrainRecord have the same fields, as PinRecord, RemovedRecord and ReachedRecord have.
template <typename T>
void EncodeAttemptMark(RecordKind kind, const T& mark, Buffer* out) {
  RecordEncoder record(kind, mark.store_id, out);
  record.encoder().String(mark.job);
  record.encoder().Varint(mark.attempt);
  record.encoder().I64(mark.wall_time_ns);
  record.Finish();
}

template <typename T>
void DecodeAttemptMark(Decoder& decoder, const StoreId& id, T* mark) {
  mark->store_id = id;
  mark->job = DecodeName(decoder);
  mark->attempt = DecodeAttempt(decoder);
  mark->wall_time_ns = decoder.I64();
}

template <typename T>
void EncodeGenerationMark(RecordKind kind, const T& mark, Buffer* out) {
  RecordEncoder record(kind, mark.generation.store_id, out);
  EncodeFields(record.encoder(), mark.generation);
  record.encoder().I64(mark.wall_time_ns);
  record.Finish();
}

template <typename T>
void DecodeGenerationMark(Decoder& decoder, const StoreId& id, T* mark) {
  DecodeFields(decoder, id, &mark->generation);
  mark->wall_time_ns = decoder.I64();
}

PartEntry DecodePartEntry(Decoder& decoder, uint32_t ranks) {
  PartEntry part;
  part.first_rank = decoder.Varint32();
  part.images = decoder.Varint32();
  part.record_crc32c = decoder.U32();
  const size_t runs = decoder.Count(kRankRunBytesMin);
  part.ranks.reserve(runs);
  for (size_t i = 0; i < runs && decoder.ok(); ++i) {
    const uint32_t first = decoder.Varint32();
    const uint32_t stride = decoder.Varint32();
    part.ranks.push_back({first, stride, decoder.Varint32()});
    const uint64_t count = part.ranks[i].count;
    decoder.Require(stride >= 1 && count >= 1 && first + (count - 1) * stride < ranks, "ranks are out of range");
  }
  decoder.Require(!part.ranks.empty() && part.images >= 1 && part.first_rank < ranks, "a part is empty");
  return part;
}

// Each rank in exactly one part.
void CheckRanks(Decoder& decoder, const VersionRecord& version) {
  uint64_t total = 0;
  for (const PartEntry& part : version.parts) {
    for (const RankRun& run : part.ranks) total += run.count;
  }
  // Counted first: what follows then takes no longer than the number of ranks.
  if (!decoder.ok() || total != version.ranks) return decoder.Fail("the parts do not cover the ranks");
  std::vector<bool> covered(version.ranks);
  for (const PartEntry& part : version.parts) {
    for (const RankRun& run : part.ranks) {
      for (uint64_t i = 0, rank = run.first; i < run.count; ++i, rank += run.stride) {
        if (covered[rank]) return decoder.Fail("a rank is in two parts");
        covered[rank] = true;
      }
    }
  }
}

// The record of the one part, with all images.
void CheckPartInside(Decoder& decoder, const VersionRecord& version) {
  if (!decoder.ok()) return;
  const Result<PartRecord> part = DecodePartRecord(version.part_inside);
  decoder.Require(part.ok(), "the part inside is damaged");
  if (!part.ok()) return;
  decoder.Require(part->generation == version.generation && part->ranks == version.ranks, "the part inside is another version's");
  const bool is_whole = version.parts.size() == 1 && version.parts[0].first_rank == 0 &&
                        version.parts[0].images == version.ranks && part->images.size() == version.ranks;
  decoder.Require(is_whole, "the part inside does not cover the ranks");
  if (!is_whole) return;
  const uint32_t crc32c = crc32c::Compute(version.part_inside.data(), version.part_inside.size());
  decoder.Require(version.parts[0].record_crc32c == crc32c, "the part inside is not the one that the version was made of");
}

// Opens the envelope, lets `fields` read the payload, and checks that nothing is left.
template <typename T, typename Fields>
Result<T> Decode(ByteSpan bytes, RecordKind kind, Fields fields) {
  KEDGE_ASSIGN_OR_RETURN(const Record record, OpenRecord(bytes, kind));
  Decoder decoder(record.payload);
  T value;
  fields(decoder, record.store_id, &value);
  KEDGE_RETURN_IF_ERROR(decoder.Finish(RecordKindName(kind)));
  return value;
}

}  // namespace

std::vector<RankRun> RunsOf(const std::vector<uint32_t>& ranks) {
  std::vector<RankRun> runs;
  for (const uint32_t rank : ranks) {
    if (!runs.empty()) {
      RankRun& run = runs.back();
      if (run.count == 1) run.stride = rank - run.first;
      if (rank == run.first + run.stride * run.count) {
        ++run.count;
        continue;
      }
      if (run.count == 1) run.stride = 1;
    }
    runs.push_back({rank, 1, 1});
  }
  return runs;
}

bool Contains(const std::vector<RankRun>& runs, uint32_t rank) {
  for (const RankRun& run : runs) {
    if (rank >= run.first && (rank - run.first) % run.stride == 0 && (rank - run.first) / run.stride < run.count) {
      return true;
    }
  }
  return false;
}

void Encode(const StoreRecord& store, Buffer* out) {
  RecordEncoder record(RecordKind::kStore, store.id, out);
  record.encoder().I64(store.wall_time_ns);
  record.encoder().String(store.host);
  record.Finish();
}

Result<StoreRecord> DecodeStoreRecord(ByteSpan bytes) {
  return Decode<StoreRecord>(bytes, RecordKind::kStore, [](Decoder& decoder, const StoreId& id, StoreRecord* store) {
    store->id = id;
    store->wall_time_ns = decoder.I64();
    store->host = DecodeText(decoder, kHostBytesMax);
    decoder.Require(!id.IsZero(), "the store id is zero");
  });
}

void Encode(const JobRecord& job, Buffer* out) {
  RecordEncoder record(RecordKind::kJob, job.store_id, out);
  record.encoder().String(job.job);
  record.encoder().I64(job.wall_time_ns);
  record.Finish();
}

Result<JobRecord> DecodeJobRecord(ByteSpan bytes) {
  return Decode<JobRecord>(bytes, RecordKind::kJob, [](Decoder& decoder, const StoreId& id, JobRecord* job) {
    job->store_id = id;
    job->job = DecodeName(decoder);
    job->wall_time_ns = decoder.I64();
  });
}

void Encode(const NameRecord& name, Buffer* out) {
  RecordEncoder record(RecordKind::kName, name.store_id, out);
  record.encoder().String(name.job);
  record.encoder().String(name.name);
  record.encoder().I64(name.wall_time_ns);
  record.Finish();
}

Result<NameRecord> DecodeNameRecord(ByteSpan bytes) {
  return Decode<NameRecord>(bytes, RecordKind::kName, [](Decoder& decoder, const StoreId& id, NameRecord* name) {
    name->store_id = id;
    name->job = DecodeName(decoder);
    name->name = DecodeName(decoder);
    name->wall_time_ns = decoder.I64();
  });
}

void Encode(const AttemptRecord& attempt, Buffer* out) {
  RecordEncoder record(RecordKind::kAttempt, attempt.store_id, out);
  Encoder& encoder = record.encoder();
  encoder.String(attempt.job);
  encoder.Varint(attempt.attempt);
  encoder.String(attempt.host);
  encoder.String(attempt.boot_id);
  encoder.String(attempt.machine_id);
  encoder.Varint(attempt.pid_namespace);
  encoder.SignedVarint(attempt.pid);
  encoder.Varint(attempt.process_start_time);
  encoder.F64(attempt.lease_seconds);
  encoder.I64(attempt.wall_time_ns);
  encoder.Varint(attempt.ranks);
  EncodeFields(encoder, attempt.beside);
  record.Finish();
}

Result<AttemptRecord> DecodeAttemptRecord(ByteSpan bytes) {
  return Decode<AttemptRecord>(bytes, RecordKind::kAttempt, [](Decoder& decoder, const StoreId& id, AttemptRecord* attempt) {
    attempt->store_id = id;
    attempt->job = DecodeName(decoder);
    attempt->attempt = DecodeAttempt(decoder);
    attempt->host = DecodeText(decoder, kHostBytesMax);
    attempt->boot_id = DecodeText(decoder, kBootIdBytesMax);
    attempt->machine_id = DecodeText(decoder, kMachineIdBytesMax);
    attempt->pid_namespace = decoder.Varint();
    attempt->pid = decoder.SignedVarint();
    attempt->process_start_time = decoder.Varint();
    attempt->lease_seconds = decoder.F64();
    attempt->wall_time_ns = decoder.I64();
    attempt->ranks = DecodeRanks(decoder);
    attempt->beside = DecodeRange(decoder, attempt->attempt);
    // Written so that NaN fails too.
    decoder.Require(attempt->lease_seconds > 0 && attempt->lease_seconds < 1e9, "the lease is out of range");
  });
}

void Encode(const AttemptEndRecord& end, Buffer* out) {
  EncodeAttemptMark(RecordKind::kAttemptEnd, end, out);
}

Result<AttemptEndRecord> DecodeAttemptEndRecord(ByteSpan bytes) {
  return Decode<AttemptEndRecord>(bytes, RecordKind::kAttemptEnd, DecodeAttemptMark<AttemptEndRecord>);
}

void Encode(const AttemptDrainRecord& drain, Buffer* out) {
  EncodeAttemptMark(RecordKind::kAttemptDrain, drain, out);
}

Result<AttemptDrainRecord> DecodeAttemptDrainRecord(ByteSpan bytes) {
  return Decode<AttemptDrainRecord>(bytes, RecordKind::kAttemptDrain, DecodeAttemptMark<AttemptDrainRecord>);
}

void Encode(const PartRecord& part, Buffer* out) {
  RecordEncoder record(RecordKind::kPart, part.generation.store_id, out);
  Encoder& encoder = record.encoder();
  EncodeFields(encoder, part.generation);
  encoder.Varint(part.ranks);
  encoder.Varint(part.images.size());
  for (const ImageEntry& image : part.images) {
    encoder.Varint(image.rank);
    encoder.String(image.object);
    encoder.Varint(image.record_offset);
    encoder.Varint(image.record_bytes);
    encoder.U32(image.record_crc32c);
    encoder.Varint(image.image_bytes);
    encoder.Varint(image.map_bytes);
    if (image.map_bytes > 0) encoder.U32(image.map_crc32c);
  }
  EncodeReferences(encoder, part.references);
  record.Finish();
}

Result<PartRecord> DecodePartRecord(ByteSpan bytes) {
  return Decode<PartRecord>(bytes, RecordKind::kPart, [](Decoder& decoder, const StoreId& id, PartRecord* part) {
    DecodeFields(decoder, id, &part->generation);
    part->ranks = DecodeRanks(decoder);
    const size_t images = decoder.Count(kImageEntryBytesMin);
    decoder.Require(images >= 1, "no images");
    part->images.reserve(images);
    for (size_t i = 0; i < images && decoder.ok(); ++i) {
      part->images.push_back(DecodeImageEntry(decoder));
      const bool increasing = i == 0 || part->images[i - 1].rank < part->images[i].rank;
      decoder.Require(increasing && part->images[i].rank < part->ranks, "ranks out of order or out of range");
    }
    part->references = DecodeReferences(decoder);
  });
}

void Encode(const VersionRecord& version, Buffer* out) {
  const bool has_part = !version.part_inside.empty();
  RecordEncoder record(RecordKind::kVersion, version.generation.store_id, out, has_part ? kFormatVersionOfWhole : kFormatVersion);
  Encoder& encoder = record.encoder();
  EncodeFields(encoder, version.generation);
  encoder.Varint(version.ranks);
  encoder.Varint(version.parts.size());
  for (const PartEntry& part : version.parts) {
    encoder.Varint(part.first_rank);
    encoder.Varint(part.images);
    encoder.U32(part.record_crc32c);
    encoder.Varint(part.ranks.size());
    for (const RankRun& run : part.ranks) {
      encoder.Varint(run.first);
      encoder.Varint(run.stride);
      encoder.Varint(run.count);
    }
  }
  encoder.Varint(version.image_bytes);
  encoder.I64(version.wall_time_ns);
  EncodeReferences(encoder, version.references);
  if (has_part) encoder.String(AsText(version.part_inside));
  record.Finish();
}

Result<VersionRecord> DecodeVersionRecord(ByteSpan bytes) {
  KEDGE_ASSIGN_OR_RETURN(const Record opened, OpenRecord(bytes, RecordKind::kVersion));
  const bool has_part = opened.format_version == kFormatVersionOfWhole;
  const auto fields = [has_part](Decoder& decoder, const StoreId& id, VersionRecord* version) {
    DecodeFields(decoder, id, &version->generation);
    version->ranks = DecodeRanks(decoder);
    const size_t parts = decoder.Count(kPartEntryBytesMin);
    version->parts.reserve(parts);
    for (size_t i = 0; i < parts && decoder.ok(); ++i) {
      version->parts.push_back(DecodePartEntry(decoder, version->ranks));
    }
    CheckRanks(decoder, *version);
    version->image_bytes = decoder.Varint();
    version->wall_time_ns = decoder.I64();
    version->references = DecodeReferences(decoder);
    if (!has_part) return;
    const ByteSpan part = AsBytes(decoder.String(kRecordBytesMax));
    version->part_inside.assign(part.begin(), part.end());
    CheckPartInside(decoder, *version);
  };
  return Decode<VersionRecord>(bytes, RecordKind::kVersion, fields);
}

void Encode(const PinRecord& pin, Buffer* out) {
  EncodeGenerationMark(RecordKind::kPin, pin, out);
}

Result<PinRecord> DecodePinRecord(ByteSpan bytes) {
  return Decode<PinRecord>(bytes, RecordKind::kPin, DecodeGenerationMark<PinRecord>);
}

void Encode(const RemovedRecord& removed, Buffer* out) {
  EncodeGenerationMark(RecordKind::kRemoved, removed, out);
}

Result<RemovedRecord> DecodeRemovedRecord(ByteSpan bytes) {
  return Decode<RemovedRecord>(bytes, RecordKind::kRemoved, DecodeGenerationMark<RemovedRecord>);
}

void Encode(const RestoredRecord& restored, Buffer* out) {
  RecordEncoder record(RecordKind::kRestored, restored.origin.store_id, out);
  EncodeFields(record.encoder(), restored.origin);
  record.encoder().Varint(restored.attempt);
  record.encoder().Varint(restored.take);
  record.encoder().I64(restored.wall_time_ns);
  EncodeFields(record.encoder(), restored.beside);
  record.Finish();
}

Result<RestoredRecord> DecodeRestoredRecord(ByteSpan bytes) {
  return Decode<RestoredRecord>(bytes, RecordKind::kRestored, [](Decoder& decoder, const StoreId& id, RestoredRecord* restored) {
    DecodeFields(decoder, id, &restored->origin);
    restored->attempt = decoder.Varint32();
    restored->take = decoder.Varint32();
    restored->wall_time_ns = decoder.I64();
    restored->beside = DecodeRange(decoder, restored->attempt);
    decoder.Require(restored->take >= 1 &&
                        std::pair(restored->attempt, restored->take) > std::pair(restored->origin.attempt, restored->origin.take),
                    "it goes on from what came later");
  });
}

void Encode(const ReachedRecord& reached, Buffer* out) {
  EncodeGenerationMark(RecordKind::kReached, reached, out);
}

Result<ReachedRecord> DecodeReachedRecord(ByteSpan bytes) {
  return Decode<ReachedRecord>(bytes, RecordKind::kReached, DecodeGenerationMark<ReachedRecord>);
}

void Encode(const BaseRecord& base, Buffer* out) {
  RecordEncoder record(RecordKind::kBase, base.generation.store_id, out);
  EncodeFields(record.encoder(), base.generation);
  record.encoder().I64(base.wall_time_ns);
  EncodeReferences(record.encoder(), base.references);
  record.Finish();
}

Result<BaseRecord> DecodeBaseRecord(ByteSpan bytes) {
  return Decode<BaseRecord>(bytes, RecordKind::kBase, [](Decoder& decoder, const StoreId& id, BaseRecord* base) {
    DecodeGenerationMark(decoder, id, base);
    base->references = DecodeReferences(decoder);
  });
}

}  // namespace kedge
